//! The table agrees with itself.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_name_means_one_thing_in_a_section() {
    let mut seen = BTreeSet::new();
    for parameter in Parameter::all() {
        assert!(parameter.sections.iter().count() > 0, "{}", parameter.name);
        for kind in parameter.sections.iter() {
            for name in [parameter.name].iter().chain(parameter.aliases) {
                assert!(seen.insert((kind, name.to_ascii_lowercase())), "{name} in [{kind}]");
            }
        }
    }
    let names: BTreeSet<_> = Parameter::all().map(|parameter| parameter.name).collect();
    assert!(names.len() >= 200, "{} names", names.len());
}

#[test]
fn defaults_are_in_range() {
    for parameter in Parameter::all() {
        let name = parameter.name;
        match parameter.kind {
            Kind::Number { default, min, max, .. } => {
                assert!(min < max, "{name}");
                if let Default::Value(default) = default {
                    assert!((min..=max).contains(&default), "{name}");
                }
            }
            Kind::Choice { default, values } => assert!(values.contains(&default), "{name}"),
            Kind::Host { default } => {
                assert!(default.is_empty() || crate::host::check(default).is_ok(), "{name}");
            }
            Kind::Flag { .. } | Kind::Text { .. } | Kind::Threads | Kind::Cpus => {}
        }
        assert!(!parameter.about.is_empty() && !parameter.about.ends_with('.'), "{name}");
        if let Status::Meaningless(why) = parameter.status {
            assert!(!why.is_empty() && !why.ends_with('.'), "{name}");
        }
    }
}

#[test]
fn names_are_found_in_any_case_and_by_alias() {
    let find = |name, kind| Parameter::find(name, kind).map(|parameter| parameter.name);
    assert_eq!(find("nodeid", SectionKind::Data), Some("NodeId"));
    assert_eq!(find("ID", SectionKind::Sql), Some("NodeId"));
    assert_eq!(find("Id", SectionKind::Computer), Some("Id"));
    assert_eq!(find("DataMemory", SectionKind::Sql), None);
    assert_eq!(Parameter::named("HostName").count(), 3);
}

#[test]
fn a_misspelt_name_has_a_nearest() {
    let cases = [
        ("DataMemroy", Some("DataMemory")),
        ("NumberOfReplicas", Some("NoOfReplicas")),
        ("CompletelyDifferent", None),
        ("NoOfReplica", Some("NoOfReplicas")),
        ("Hostname", Some("HostName")),
        ("HeartbeatInterval", Some("HeartbeatIntervalDbDb")),
        ("HeartBeatIntervalDbDB", Some("HeartbeatIntervalDbDb")),
        ("MaxNoOfTable", Some("MaxNoOfTables")),
        ("SpinMethods", Some("SpinMethod")),
        ("x", None),
        ("", None),
    ];
    for (name, nearest) in cases {
        assert_eq!(Parameter::nearest(name, SectionKind::Data), nearest, "{name}");
    }
    assert_eq!(Parameter::nearest(&"x".repeat(10_000), SectionKind::Data), None);
}
