//! Everything that goes wrong is told in one clear error, with a documented code and nothing left behind.

use crate::sandbox::{Sandbox, TRACE};

const SIM: &str = "sim --cluster 1x2 --policy fifo --trace";

#[test]
fn wrong_file() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} nope.csv --out out")).fails(3), @"
    error: cannot open `nope.csv`
    caused by: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} . --out out")).fails(3), @"
    error: `.` is a directory, not a file
    hint: name one file inside it; folders are read where they hold `pai_task_table.csv`, `cluster_log.csv` or `cluster_job_log`
    ");
    sandbox.write("picture.csv", "\u{89}PNG\u{0}\u{1}");
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} picture.csv --out out")).fails(3), @"
    error: `picture.csv` is not text: it has a zero byte at offset 5
    hint: only UTF-8 text is read, plain or gzip-compressed; unpack an archive first (`tar -xf`)
    ");
    sandbox.shell("gzip -c jobs.csv | head -c 30 > cut.csv.gz").ok();
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} cut.csv.gz --out out")).fails(3), @"
    error: cannot read `cut.csv.gz`
    caused by: incomplete deflate stream
    hint: it may be cut short or damaged: copy or download it again
    ");
    for words in ["--cluster nope.csv --preset wharf", "--cluster 1x2 --preset nope.toml"] {
        let error = sandbox.wharf(&format!("sim --trace jobs.csv --policy fifo {words}")).fails(3);
        assert!(error.starts_with("error: `nope."), "{error}");
    }
    sandbox.write("other.csv", "apples,pears\n1,2\n");
    let error = sandbox.wharf(&format!("{SIM} other.csv --out out")).fails(3);
    assert!(error.starts_with("error: cannot detect the trace format of `other.csv`"), "{error}");
    assert_eq!(sandbox.names("."), ["cut.csv.gz", "jobs.csv", "other.csv", "picture.csv"]);
}

#[test]
fn empty_file() {
    let sandbox = Sandbox::new();
    sandbox.write("empty.csv", "");
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} empty.csv --out out")).fails(3), @"
    error: `empty.csv` is empty
    hint: the first line names the columns
    ");
    sandbox.write("header.csv", TRACE.lines().next().unwrap());
    let error = sandbox.wharf(&format!("{SIM} header.csv --out out")).fails(3);
    assert!(error.contains("the file has no jobs"), "{error}");
    let error = sandbox.wharf("sim --cluster empty.csv --policy fifo --trace jobs.csv").fails(3);
    assert!(error.contains("`empty.csv` is empty"), "{error}");
    let error = sandbox.wharf(&format!("{SIM} jobs.csv --failures empty.csv")).fails(3);
    assert!(error.contains("`empty.csv` is empty"), "{error}");
    let error = sandbox.wharf("sweep empty.csv").fails(3);
    assert!(error.contains("scenario `empty.csv` has no [[matrix]]"), "{error}");
    assert_eq!(sandbox.names("."), ["empty.csv", "header.csv", "jobs.csv"]);
}

#[test]
fn bad_line_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.csv", &TRACE.replace("50,1000", "50,-7"));
    let error = sandbox.wharf(&format!("{SIM} bad.csv")).fails(3);
    assert!(error.starts_with("error: bad.csv:3:iteration_ms: error[negative-duration]: "), "{error}");
}

#[test]
fn job_larger_than_the_cluster() {
    let sandbox = Sandbox::new();
    for preset in ["wharf", "muri"] {
        let words = format!("sim --trace jobs.csv --cluster 1x1 --policy srtf --preset {preset} --out out");
        let error = sandbox.wharf(&words).fails(3);
        assert!(error.starts_with("error: job "), "{error}");
        assert!(error.contains("needs 2 devices"), "{error}");
        assert!(
            error.contains("\nhint: `wharf trace lint FILE --cluster CLUSTER` lists every job"),
            "{error}"
        );
    }
    assert_eq!(sandbox.names("."), ["jobs.csv"]);
}

#[test]
fn scenario_that_includes_itself() {
    let sandbox = Sandbox::new();
    sandbox.write("a.toml", "include = [\"b.toml\"]\n");
    sandbox.write("b.toml", "\ninclude = [\"a.toml\"]\n");
    insta::assert_snapshot!(sandbox.wharf("sweep a.toml").fails(3), @"error: b.toml:2:12: scenario includes itself: `a.toml` includes `b.toml` includes `a.toml`");
    assert_eq!(sandbox.names("."), ["a.toml", "b.toml", "jobs.csv"]);
}

#[test]
fn unknown_option() {
    let sandbox = Sandbox::new();
    let error = sandbox.wharf(&format!("{SIM} jobs.csv --polcy srtf")).fails(2);
    assert!(error.starts_with("error: unexpected argument '--polcy' found"), "{error}");
    assert!(error.contains("'--policy'"), "{error}");
    let error = sandbox.wharf("simulate").fails(2);
    assert!(error.contains("unrecognized subcommand 'simulate'"), "{error}");
}

#[test]
fn policy_names_of_published_systems_are_translated() {
    let sandbox = Sandbox::new();
    let set = |name: &str| sandbox.wharf(&format!("policy set {name}")).fails(2);
    insta::assert_snapshot!(set("fcfs"), @"
    error: no policy is named `fcfs`
    hint: `fcfs` of Crius is `--policy crius/fcfs` here
    hint: `wharf policies --from crius` lists the policies of Crius
    ");
    insta::assert_snapshot!(set("gavel"), @"
    error: no policy is named `gavel`
    hint: `gavel` of Crius is `--policy crius/gavel` here
    hint: `wharf policies --from crius` lists the policies of Crius
    hint: `wharf policies --from gavel` lists the policies of Gavel
    ");
    insta::assert_snapshot!(set("shortest"), @"
    error: no policy is named `shortest`
    hint: `shortest` of Muri is `--policy srtf` here
    hint: `wharf policies --from muri` lists the policies of Muri
    ");
    insta::assert_snapshot!(set("multi-resource-gpu-unaware"), @"
    error: no policy is named `multi-resource-gpu-unaware`
    hint: `multi-resource-gpu-unaware` of Muri is `--policy muri-l --set blossom=off` here
    hint: `wharf policies --from muri` lists the policies of Muri
    ");
    insta::assert_snapshot!(set("muri"), @"
    error: no policy is named `muri`
    hint: did you mean `muri-s`?
    hint: `wharf policies --from muri` lists the policies of Muri
    ");
    // Wherever a policy is named: a head, a simulation, a simulation under another preset.
    for command in [
        "head --home state --policy dlas-gpu",
        "sim --trace jobs.csv --cluster 1x2 --policy dlas-gpu",
        "sim --trace jobs.csv --cluster 1x2 --preset muri --policy dlas-gpu",
        "replay --trace jobs.csv --cluster 1x2 --policy dlas-gpu",
    ] {
        let error = sandbox.wharf(command).fails(2);
        assert!(error.contains("hint: `dlas-gpu` of Muri is `--policy tiresias` here"), "{command}: {error}");
    }
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let sandbox = Sandbox::new();
    let sim = |rest: &str| sandbox.wharf(&format!("sim --trace jobs.csv --cluster 1x2 {rest}")).fails(2);
    insta::assert_snapshot!(sim("--policy tiresas"), @"
    error: no policy is named `tiresas`
    hint: did you mean `tiresias`?
    hint: `wharf policies` lists them all
    ");
    insta::assert_snapshot!(sim("--policy fifo --rounds 3"), @"
    error: policy `fifo` has no rounds under preset `wharf`, so that none can be the last
    hint: omit `--rounds`, or use a round-based policy such as `max-min-fairness-perf`
    ");
    insta::assert_snapshot!(sim("--policy fifo --preset mury"), @"
    error: `mury` is neither a built-in preset (wharf, muri, gavel, sia, blox, crius, fgd) nor a file
    hint: did you mean `muri`?
    hint: `wharf presets` lists the built-in ones
    ");
    let error = sim("--policy fifo --format muris");
    assert!(error.starts_with("error: unknown trace format `muris`\nhint: did you mean `muri`?"), "{error}");
    let error = sim("--policy fifo --set restart=3");
    assert!(error.contains("`restart` is not a setting of policy `fifo` under preset `wharf`"), "{error}");
    assert!(error.contains("hint: did you mean `restart_s`?"), "{error}");
    let error = sim("--policy fifo --set backfill=yes");
    assert!(error.contains("setting `backfill` cannot be `yes`"), "{error}");
    insta::assert_snapshot!(sim("--policy fifo --set backfill"), @"
    error: `--set backfill` is not of the form KEY=VALUE
    hint: for example `--set packing_num=2`, or `--set POLICY.KEY=VALUE` for one of several policies; `wharf policy explain POLICY` lists the settings of a policy
    ");
    insta::assert_snapshot!(sim("--policy fifo,srtf,fifo"), @"error: policy `fifo` is listed twice");
    let error = sandbox.wharf("policy explain tiresas").fails(2);
    assert!(error.contains("hint: did you mean `tiresias`?"), "{error}");
    let error = sandbox.wharf("help exit-code").fails(2);
    assert!(error.contains("hint: did you mean `exit-codes`?"), "{error}");
    let error = sandbox.wharf("sim --trace jobs.csv --policy fifo --cluster 8by8").fails(2);
    assert!(error.contains("hint: write nodes x devices"), "{error}");
}

#[test]
fn full_disk_for_standard_output() {
    let sandbox = Sandbox::new();
    for words in ["sim --trace jobs.csv --cluster 1x2 --policy fifo", "policies", "trace generate", "--help"]
    {
        let said = sandbox.shell(&format!("\"$WHARF\" {words} > /dev/full"));
        assert_eq!(said.code, Some(4), "{words}: {}", said.stderr);
        assert!(said.stderr.starts_with("error: cannot write to standard output\n"), "{}", said.stderr);
    }
    insta::assert_snapshot!(sandbox.shell("\"$WHARF\" trace convert jobs.csv > /dev/full").fails(4), @"
    error: cannot write to standard output
    caused by: No space left on device (os error 28)
    ");
}

#[test]
fn full_disk_for_a_file() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.wharf("trace convert jobs.csv /dev/full").fails(4), @"
    error: cannot write `/dev/full`
    caused by: No space left on device (os error 28)
    ");
}

/// A limit on the size of files stands in for a disk that fills up half-way.
#[test]
fn full_disk_for_results_cleans_up() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 500 --to big.csv").ok();
    for out in ["out", "new/out"] {
        let line = format!(
            "trap '' XFSZ; ulimit -f 8; \"$WHARF\" sim --trace big.csv --cluster 16x8 --policy fifo,srtf --out {out}"
        );
        let error = sandbox.shell(&line).fails(4);
        assert!(error.starts_with(&format!("error: cannot write `{out}/big-")), "{error}");
        assert!(error.contains("caused by: File too large"), "{error}");
        assert_eq!(sandbox.names("."), ["big.csv", "jobs.csv"]);
    }
    let error =
        sandbox.shell("trap '' XFSZ; ulimit -f 8; \"$WHARF\" trace generate --jobs 5000 --to t.csv").fails(4);
    assert!(error.starts_with("error: cannot write `t.csv`"), "{error}");
    assert_eq!(sandbox.names("."), ["big.csv", "jobs.csv"]);
}

#[test]
fn directory_in_the_way_is_known_before_the_work() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.wharf(&format!("{SIM} jobs.csv --out jobs.csv")).fails(4), @"error: cannot write to `jobs.csv`: it is not a directory");
    let below = sandbox.wharf(&format!("{SIM} jobs.csv --out jobs.csv/out")).fails(4);
    assert_eq!(below, "error: cannot write to `jobs.csv/out`: `jobs.csv` is not a directory\n");
    sandbox.wharf("trace convert jobs.csv .").fails(4);
    assert_eq!(sandbox.names("."), ["jobs.csv"]);
}

#[test]
fn reader_that_goes_away_is_success() {
    let sandbox = Sandbox::new();
    let said = sandbox.shell("{ \"$WHARF\" trace generate --jobs 20000; echo $? >&2; } | head -n 1");
    assert_eq!((said.stderr.as_str(), said.stdout.lines().count()), ("0\n", 1));
}
