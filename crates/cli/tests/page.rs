//! What the admin address gives to a browser: the dashboard where it was built, else how to get it; nothing that lets foreign code in.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use support::nfsd::Nfsd;
use support::serve::Site;

#[test]
fn the_admin_address_shows_a_page_or_says_how_to_get_it() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let more = "[admin]\ntcp = \"127.0.0.1:0\"\n".to_owned();
    let daemon = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let address = daemon.admin.unwrap();
    let index = over_tcp(address, "GET /");
    assert_eq!(index.status, 200, "{index:?}");
    for (name, value) in GUARDS {
        assert!(index.header(name).contains(value), "{name}: {index:?}");
    }
    match index.header("content-type") {
        "text/html; charset=utf-8" => parts(address, &index.body),
        "text/plain; charset=utf-8" => {
            let named = ["make web", "make build", "/metrics", "/api/v1/status"];
            assert!(named.iter().all(|what| index.body.contains(what)), "{index:?}");
        }
        other => panic!("{other}"),
    }
    let head = over_tcp(address, "HEAD /");
    assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
    assert_eq!(head.header("content-type"), index.header("content-type"));
    assert_eq!(over_tcp(address, "POST /").status, 405);
    for nothing in ["GET /assets/none.js", "GET /assets/..%2findex.html", "GET /index.html"] {
        assert_eq!(over_tcp(address, nothing).status, 404, "{nothing}");
    }
    let socket = ask(&mut UnixStream::connect(daemon.socket()).unwrap(), "GET /");
    assert_eq!((socket.status, &socket.body), (200, &index.body), "the socket gives the same");
}

/// What the page asks for is there, and may be kept for ever; nothing of it comes from elsewhere.
fn parts(address: SocketAddr, page: &str) {
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    let names: Vec<&str> = page.split('"').filter(|word| word.starts_with("./assets/")).collect();
    assert!(names.len() >= 3, "code, styles and an icon: {page}");
    for name in names {
        let part = over_tcp(address, &format!("GET {}", &name[1..]));
        assert!(part.status == 200 && !part.body.is_empty(), "{name}");
        assert!(part.header("cache-control").contains("immutable"), "{name}");
        assert_eq!(part.header("content-security-policy"), GUARDS[0].1, "{name}");
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.split_once(": ").filter(|(found, _)| *found == name));
        line.map_or("", |(_, value)| value)
    }
}

fn over_tcp(address: SocketAddr, request: &str) -> Answer {
    ask(&mut TcpStream::connect(address).unwrap(), request)
}

fn ask(stream: &mut (impl Read + Write), request: &str) -> Answer {
    write!(stream, "{request} HTTP/1.1\r\nHost: midas\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

const GUARDS: [(&str, &str); 3] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("cache-control", "no-cache"),
    ("x-content-type-options", "nosniff"),
];
