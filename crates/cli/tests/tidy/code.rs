//! The rules on source text. A rule takes one file and returns its breaches.

use crate::source::{Finding, Source, is_identifier, item_end, line_of, words};

/// A function that does not fit on a screen has more than one idea.
const MAX_FUNCTION_LINES: usize = 70;
const MAX_FILE_LINES: usize = 700;
const NOTES: [&str; 2] = ["TODO", "FIXME"];
const STUBS: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];
const MACHINE_PATHS: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), "/tmp/"];
const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
/// Suffixes that say a type does something, but not what.
const EMPTY_SUFFIXES: [&str; 6] = ["Manager", "Handler", "Helper", "Util", "Utils", "Context"];
/// What the platform's mathematics library rounds as it likes. `sqrt`, `abs` and rounding are exact and not listed.
const INEXACT: [&str; 26] = [
    "exp", "exp2", "exp_m1", "ln", "ln_1p", "log", "log2", "log10", "powf", "powi", "cbrt", "hypot", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sin_cos", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
];
const CLOCKS: [&str; 2] = ["Instant::now", "SystemTime"];

/// What a test must not do for itself: where nobody tells, it asks by `midas_lab::until`.
const PAUSES: [&str; 4] = ["sleep", "park_timeout", "yield_now", "try_wait"];

/// Behind these stands an address to listen on.
const LISTENERS: [&str; 8] =
    ["listen = ", "nfs = ", "mount = ", "portmap = ", "tcp = ", "--listen", "--portmap", "bind("];

pub(crate) fn long_functions(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    words(code, "fn")
        .filter_map(|at| {
            let name = identifier_after(code, at + "fn".len())?;
            let lines = code[at..item_end(code, at)].lines().count();
            (lines > MAX_FUNCTION_LINES).then(|| {
                finding(code, at, format!("`{name}` has {lines} lines, at most {MAX_FUNCTION_LINES} are allowed"))
            })
        })
        .collect()
}

pub(crate) fn long_file(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count();
    let too_long = lines > MAX_FILE_LINES;
    too_long
        .then(|| Finding { line: lines, what: format!("{lines} lines, at most {MAX_FILE_LINES} are allowed") })
        .into_iter()
        .collect()
}

pub(crate) fn leftovers(source: &Source) -> Vec<Finding> {
    let notes = NOTES.iter().flat_map(|note| words(&source.text, note).map(move |at| (at, note)));
    let notes = notes.map(|(at, note)| finding(&source.text, at, format!("{note}: do it or drop it")));
    let stubs = STUBS.iter().flat_map(|stub| source.code.match_indices(stub));
    let stubs = stubs.map(|(at, stub)| finding(&source.code, at, format!("`{stub}` is a promise, not code")));
    if source.is_rust() { notes.chain(stubs).collect() } else { notes.collect() }
}

pub(crate) fn machine_paths(source: &Source) -> Vec<Finding> {
    let text = &source.text;
    let starts_a_path = |at: &usize| {
        !text[..*at].chars().next_back().is_some_and(|c| is_identifier(c) || ['.', '-', '}', ')'].contains(&c))
    };
    MACHINE_PATHS
        .iter()
        .flat_map(|path| text.match_indices(path))
        .filter(|(at, _)| starts_a_path(at))
        .map(|(at, path)| finding(text, at, format!("`{path}` exists on one machine only")))
        .collect()
}

pub(crate) fn unwraps(source: &Source) -> Vec<Finding> {
    let code = source.product_code();
    let found = code.match_indices(".unwrap()");
    found.map(|(at, _)| finding(&code, at, "`unwrap()`: say why it cannot fail with `expect`".to_owned())).collect()
}

pub(crate) fn empty_type_names(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    TYPE_KEYWORDS
        .iter()
        .flat_map(|keyword| words(code, keyword).map(move |at| (at, at + keyword.len())))
        .filter_map(|(at, end)| {
            let name = identifier_after(code, end)?;
            let suffix = EMPTY_SUFFIXES.iter().find(|suffix| name.ends_with(**suffix))?;
            Some(finding(code, at, format!("`{name}`: `{suffix}` does not say what the type is")))
        })
        .collect()
}

pub(crate) fn platform_mathematics(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    INEXACT
        .iter()
        .flat_map(|name| words(code, name).map(move |at| (at, *name)))
        .filter(|(at, name)| is_float_call(&code[..*at], &code[at + name.len()..], name))
        .map(|(at, name)| finding(code, at, format!("`{name}` differs between platforms: use `libm`")))
        .collect()
}

/// `x.ln()` and `f64::ln`. A method with arguments is the float's only where the float's takes one: `rng.exp(mean)` is ours.
fn is_float_call(before: &str, after: &str, name: &str) -> bool {
    let takes_argument = ["log", "powf", "powi", "hypot", "atan2"].contains(&name);
    let method = before.ends_with('.') && (after.starts_with("()") || takes_argument && after.starts_with('('));
    method || before.ends_with("f64::") || before.ends_with("f32::")
}

pub(crate) fn clock_reads(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let found = CLOCKS.iter().flat_map(|clock| words(code, clock).map(move |at| (at, clock)));
    found.map(|(at, clock)| finding(code, at, format!("`{clock}`: time is an argument"))).collect()
}

pub(crate) fn pauses(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let found = PAUSES.iter().flat_map(|pause| words(code, pause).map(move |at| (at, pause)));
    found.map(|(at, pause)| finding(code, at, format!("`{pause}`: wait for an event, with a limit"))).collect()
}

/// A port that is fixed may be somebody else's, on every address (0.0.0.0) at once.
pub(crate) fn fixed_ports(source: &Source) -> Vec<Finding> {
    let text = &source.text;
    let listeners = LISTENERS.iter().flat_map(|key| text.match_indices(key).map(|(at, key)| (at, at + key.len())));
    let listeners = listeners.filter(|(_, end)| listens_on_fixed_port(&text[*end..])).map(|(at, _)| at);
    let constants = source.code.match_indices(": u16 = ").filter(|(at, key)| {
        let value = source.code[at + key.len()..].trim_start_matches('0');
        value.starts_with(|c: char| c.is_ascii_digit())
            && !["PORTMAP", "USUAL_NFS"].iter().any(|name| source.code[..*at].ends_with(name))
    });
    let asked = source.code.match_indices("loopback(").filter(|(at, _)| {
        let ports = source.code[*at..].split(']').next().and_then(|call| call.split_once("&["));
        ports.is_some_and(|(_, ports)| !["", "PORTMAP"].contains(&ports))
    });
    let found = listeners.chain(constants.chain(asked).map(|(at, _)| at));
    found
        .map(|at| finding(text, at, "a fixed port: `midas_lab::free_port` holds one that is free".to_owned()))
        .collect()
}

/// Whether the address that begins here has a port other than 0. The last of all ports is for what is refused.
fn listens_on_fixed_port(value: &str) -> bool {
    let begin = value.trim_start_matches([' ', '"', '\\', '[', '(', '&', ',']);
    let address = begin.split(['"', '\\', ')', ' ', '\n']).next().unwrap_or_default();
    let pair = begin.split([')', '\n']).next().and_then(|pair| pair.split_once(", ")).map(|(_, port)| port);
    let ports = [address.rsplit_once(':').map(|(_, port)| port), pair];
    ports.into_iter().flatten().filter_map(|port| port.parse::<u16>().ok()).any(|port| port != 0 && port != u16::MAX)
}

/// The first thing a `no_std` crate says, below its header, is that it is one.
pub(crate) fn missing_no_std(source: &Source) -> Vec<Finding> {
    let first = source.code.trim_start();
    if first.starts_with("#![no_std]") {
        return Vec::new();
    }
    let at = source.code.len() - first.len();
    vec![finding(&source.code, at, "the first line of code is not `#![no_std]`".to_owned())]
}

fn identifier_after(code: &str, end: usize) -> Option<&str> {
    let name = code[end..].trim_start();
    let length = name.find(|c| !is_identifier(c)).unwrap_or(name.len());
    (length > 0).then(|| &name[..length])
}

fn finding(text: &str, at: usize, what: String) -> Finding {
    Finding { line: line_of(text, at), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case: a text, and the lines on which the rule must speak.
    fn check(rule: fn(&Source) -> Vec<Finding>, cases: &[(&str, &[usize])]) {
        for (text, expected) in cases {
            let source = Source::new("crates/x/src/lib.rs", text);
            let lines: Vec<usize> = rule(&source).iter().map(|found| found.line).collect();
            assert_eq!(lines, *expected, "{text}");
        }
    }

    #[test]
    fn a_function_of_71_lines_is_too_long_and_one_of_70_is_not() {
        let function =
            |lines: usize| format!("// fn\n\nfn f<'a>(x: [u8; 2]) {{\n{}}}\nfn g() {{}}\n", "x;\n".repeat(lines - 2));
        check(long_functions, &[(&function(70), &[]), (&function(71), &[3])]);
        let pointer = format!("type F = fn(u8) -> u8;\n{}", "const X: u8 = 1;\n".repeat(80));
        let brace_in_string = format!("fn f() {{ \"{{\"; }}\n{}", "const X: u8 = 1;\n".repeat(80));
        check(long_functions, &[(&pointer, &[]), (&brace_in_string, &[])]);
    }

    #[test]
    fn a_file_of_701_lines_is_too_long_and_one_of_700_is_not() {
        check(long_file, &[(&"\n".repeat(700), &[]), (&"\n".repeat(701), &[701])]);
    }

    #[test]
    fn a_test_that_pauses_is_found() {
        check(
            pauses,
            &[("x\nstd::thread::sleep(LOOK);", &[2]), ("\"sleep 1\"; sleeps();", &[]), ("child.try_wait()", &[1])],
        );
    }

    #[test]
    fn a_fixed_port_is_found() {
        check(
            fixed_ports,
            &[
                ("x\nconst NFS: u16 = 2049;", &[2]),
                ("const PORTMAP: u16 = 111; const ANY: u16 = 0;", &[]),
                ("loopback(3, &[7049])", &[1]),
                ("loopback(3, &[NFS, MOUNT])", &[1]),
                ("loopback(1, &[]); loopback(1, &[PORTMAP])", &[]),
                ("TcpListener::bind(\"127.0.0.1:7049\")", &[1]),
                ("UdpSocket::bind((host, 2049)).unwrap()", &[1]),
                ("bind((host, 0)); bind(\"127.0.0.1:0\"); bind((host, port)); bind(address)", &[]),
                ("\"nfs = \\\"127.0.0.1:2049\\\"\"", &[1]),
                ("\"nfs = [\\\"[::1]:0\\\", \\\"127.0.0.1:0\\\"]\"", &[]),
                ("&[\"--listen\", \"[::1]:12049\"]", &[1]),
                ("\"--listen 127.0.0.1:65535 --servers 2\", \"--listen 127.0.0.1:0\"", &[]),
            ],
        );
    }

    #[test]
    fn notes_are_found_in_comments_and_stubs_in_code() {
        check(
            leftovers,
            &[
                ("x\n// TODO: later", &[2]),
                ("// FIXME", &[1]),
                ("\"TODO\"", &[1]),
                ("// TODOS are fine", &[]),
                ("fn f() { todo!() }", &[1]),
                ("unimplemented!(\"x\")", &[1]),
                ("#[test]\n#[ignore = \"slow\"]", &[2]),
                ("// todo!() in a comment", &[]),
            ],
        );
        assert_eq!(leftovers(&Source::new("README.md", "a\nTODO")).len(), 1);
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_longer_path_is_not() {
        check(
            machine_paths,
            &[
                ("a\nlet p = \"/tmp/x\";", &[2]),
                (concat!("see /", "work/main"), &[1]),
                (concat!("`/", "root/.cargo`"), &[1]),
                (concat!("crates/", "work/x and $(pwd)/tmp/x and ${dir}/tmp/x"), &[]),
                ("std::env::temp_dir()", &[]),
            ],
        );
    }

    #[test]
    fn unwrap_is_found_outside_tests_only() {
        check(
            unwraps,
            &[
                ("fn f() {\n    x.unwrap();\n}", &[2]),
                ("format!(\"{}\", x.unwrap())", &[1]),
                ("x.unwrap_or(1); x.expect(\"why\"); // x.unwrap()", &[]),
                ("#[cfg(test)]\nmod t {\n x.unwrap();\n}\nfn f() { y.unwrap() }", &[5]),
            ],
        );
    }

    #[test]
    fn a_type_named_for_nothing_is_found() {
        check(
            empty_type_names,
            &[
                ("pub struct CacheManager {}", &[1]),
                ("\nenum RouteHelper {}", &[2]),
                ("trait Util {}", &[1]),
                ("type RouteContext<'a> = &'a u8;", &[1]),
                ("struct CallHandler;", &[1]),
                ("struct Managerial; fn handler() {} use task::Context;", &[]),
            ],
        );
    }

    #[test]
    fn platform_mathematics_is_found_and_libm_is_not() {
        check(
            platform_mathematics,
            &[
                ("a\nx.ln()", &[2]),
                ("x.powf(2.0)", &[1]),
                ("x.powi(2)", &[1]),
                ("y.atan2(x)", &[1]),
                ("xs.map(f64::exp)", &[1]),
                ("f64::sin(x)", &[1]),
                ("x.sqrt(); libm::exp(x); rng.exp(mean); n.ilog2(); \"x.ln()\"; self.exp", &[]),
            ],
        );
    }

    #[test]
    fn a_clock_read_is_found() {
        check(
            clock_reads,
            &[
                ("let t = Instant::now();", &[1]),
                ("\nuse std::time::SystemTime;", &[2]),
                ("// Instant::now\nlet t = now;", &[]),
            ],
        );
    }

    #[test]
    fn no_std_comes_before_any_other_code() {
        check(
            missing_no_std,
            &[
                ("//! Header.\n#![no_std]\nextern crate alloc;", &[]),
                ("//! Header.\nextern crate alloc;\n#![no_std]", &[2]),
                ("//! #![no_std]\nmod a;", &[2]),
            ],
        );
    }
}
