//! What docs/operating.md says of keys, tables and ranges is what the readers do.

use super::*;

#[test]
fn every_key_has_an_entry_and_every_entry_is_a_key() {
    let listed: Vec<(Table, &str)> = KEYS.iter().map(|key| (key.table, key.name)).collect();
    let example = format!("{EXAMPLE}[[export.subtree]]\npath = \"/scratch/software\"\nmode = \"ttl\"\n");
    let entries = parsed(&example).entries();
    assert_eq!(entries.iter().map(|entry| (entry.place.table, entry.key)).collect::<Vec<_>>(), listed);
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len(), "a key is listed twice");
}

#[test]
fn the_document_has_the_tables_of_keys_and_the_example() {
    for table in Table::ALL {
        let rows = table.markdown();
        assert!(DOCUMENT.contains(&rows), "docs/operating.md must have this table for {table}:\n\n{rows}");
    }
    assert!(DOCUMENT.contains(&format!("```toml\n{EXAMPLE}```\n")), "docs/operating.md must have the example");
}

/// The ranges stand in the document in words, and in the readers: what the readers say about a value past any range must agree.
#[test]
fn the_ranges_of_the_document_are_those_of_the_readers() {
    let same = |documented: &str, said: &str| match (parse_span(documented), parse_span(said)) {
        (Ok(documented), Ok(said)) => documented == said,
        (_, _) => documented == said,
    };
    let ranged =
        KEYS.iter().filter_map(|key| Some((key, key.takes.split([' ', ',']).find_map(|word| word.split_once(".."))?)));
    for (key, (least, most)) in ranged.clone() {
        let value = if key.takes.starts_with("time") { "\"9999h\"" } else { "9999999999999" };
        let text = match key.table.name() {
            None => format!("{} = {value}", key.name),
            Some(_) => {
                let parent = key.table.parent().map_or_else(String::new, |parent| format!("{parent}\n"));
                format!("{parent}{}\n{} = {value}", key.table, key.name)
            }
        };
        let said = wrong(&text);
        let range = said
            .lines()
            .find(|line| line.contains(&format!(" {} takes ", key.name)))
            .unwrap_or_else(|| panic!("{said}"));
        let (said_least, said_most) = range.split([' ', ',']).find_map(|word| word.split_once("..")).unwrap();
        assert!(same(least, said_least) && same(most, said_most), "{}: {least}..{most}, but {range}", key.name);
    }
    assert_eq!(ranged.count(), 32);
}
