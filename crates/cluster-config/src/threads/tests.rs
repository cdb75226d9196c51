//! Thread configurations as NDB's users write them.

use super::*;

#[test]
fn as_users_write_them() {
    let text = "ldm={count=4,cpubind=0-3},main={cpubind=4},tc,send,recv,rep,io,idxbld,wd,query";
    let config = ThreadConfig::parse(text).unwrap();
    assert_eq!(config.count(ThreadRole::Rows), 4);
    assert_eq!(config.count(ThreadRole::Main), 1);
    assert_eq!(config.count(ThreadRole::Recover), 0);
    let expected =
        "ldm={count=4,cpubind=0-3},query,tc,send,recv,main={cpubind=4},rep,io,idxbld,watchdog";
    assert_eq!(config.to_string(), expected);
    assert_eq!(ThreadConfig::parse(expected).unwrap(), config);
}

#[test]
fn every_option() {
    let text = "LDM = { count = 2 , CPUBIND_exclusive=1,2-3, spintime=50, realtime=1, \
        thread_prio=10 }, tc={cpuset=4-5,count=2,nosend=1},recv={count=2,cpuset_exclusive=6}";
    let config = ThreadConfig::parse(text).unwrap();
    let expected = "ldm={count=2,cpubind_exclusive=1-3,spintime=50,realtime=1,thread_prio=10},\
        tc={count=2,cpuset=4-5,nosend=1},recv={count=2,cpuset_exclusive=6}";
    assert_eq!(config.to_string(), expected);
    let first = &config.groups()[0];
    assert_eq!((first.spin_us, first.realtime, first.priority), (Some(50), Some(true), Some(10)));
    assert_eq!(ThreadConfig::parse(expected).unwrap(), config);
}

#[test]
fn a_role_may_have_several_groups() {
    let config = ThreadConfig::parse("ldm={count=2,cpubind=0-1},ldm={cpubind=8},main").unwrap();
    assert_eq!(config.count(ThreadRole::Rows), 3);
    assert_eq!(config.groups().len(), 3);
    let short = "ldm{count=2},watchdog={cpuset=9}";
    assert_eq!(ThreadConfig::parse(short).unwrap().to_string(), short.replacen('{', "={", 1));
    assert_eq!(ThreadConfig::parse("").unwrap(), ThreadConfig::default());
}

#[test]
fn what_is_refused() {
    let cases = [
        ("ldmm", "`ldmm` is no kind of thread; known are ldm, query"),
        ("ldm=4", "write ldm={…} with braces"),
        ("ldm={count=4", "write ldm={…} with braces"),
        ("ldm{count=4", "write ldm={…} with braces"),
        ("ldm={count}", "`count` is not `key=value`"),
        ("ldm={count=x}", "count of ldm: `x` is no number up to 1024"),
        ("ldm={count=1,count=2}", "count of ldm: given twice"),
        ("ldm={cpu=1}", "cpu of ldm: known are count"),
        ("ldm={cpubind=a}", "cpubind of ldm: `a` is no CPU"),
        ("ldm={cpubind=1,cpuset=2}", "cpuset of ldm: a group has one list of CPUs"),
        ("ldm={count=3,cpubind=0-1}", "ldm: cpubind gives 2 CPUs to 3 threads; write cpuset"),
        ("rep={count=2}", "rep has 2 threads; write 0 to 1"),
        ("main,main,main", "main has 3 threads"),
        ("recv={count=0}", "recv has 0 threads; write 1 to 64"),
        ("ldm,", "nothing stands behind the last comma"),
        ("ldm={} tc", "a comma is missing before `tc`"),
        (",", "`` is no kind of thread"),
        ("ldm={,}", "`` is not `key=value`"),
    ];
    for (text, expected) in cases {
        let why = ThreadConfig::parse(text).unwrap_err();
        assert!(why.starts_with(expected), "{text}: {why}");
    }
    assert!(ThreadConfig::parse(&"ldm,".repeat(1_000)).is_err());
}
