//! `wharf submit`: files, standard input, flags, and jobs that wait for one another.

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

#[test]
fn examples_can_be_submitted_as_they_are() {
    let sandbox = Sandbox::new();
    let mut shown = Vec::new();
    for form in ["yaml", "toml", "json"] {
        sandbox.write(&format!("job.{form}"), &sandbox.wharf(&format!("submit --example {form}")).ok());
        shown.push(sandbox.wharf(&format!("submit job.{form} --dry-run --output json")).ok());
    }
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
    let document: serde_json::Value = serde_json::from_str(&shown[0]).unwrap();
    assert_eq!(document["jobs"][0]["gang"]["devices"], 8);
    let piped = sandbox.shell("$WHARF submit - --format yaml --dry-run --output json < job.yaml").ok();
    assert_eq!(piped, shown[0]);
}

#[test]
fn dry_run_shows_fields_for_people() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", "command: python train.py\nexport: NONE\nworkdir: /w\narray: 1-2\n");
    insta::assert_snapshot!(sandbox.wharf("submit job.yaml --dry-run --gang 2x4 --account lab").ok(), @"
    field	value
    jobs.0.account	lab
    jobs.0.array.0	1
    jobs.0.array.1	2
    jobs.0.command.0	python
    jobs.0.command.1	train.py
    jobs.0.gang.devices	8
    jobs.0.gang.nodes	2
    jobs.0.grace_s	10.0
    jobs.0.name	train.py
    jobs.0.workdir	/w
    schema	1
    ");
}

#[test]
fn invalid_job_is_rejected_without_a_head() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.yaml", "command: x\ngnag: 4\n");
    sandbox.write("job.txt", "command: x\n");
    let said = |words: &str, code| sandbox.wharf(words).fails(code);
    insta::assert_snapshot!(said("submit bad.yaml", 3), @"
    error: bad.yaml:2:1: gnag: unknown field `gnag`
    hint: did you mean `gang`?
    ");
    insta::assert_snapshot!(said("submit", 2), @"
    error: nothing to submit
    hint: give a job file, or a command after `--`: wharf submit -- python train.py
    ");
    insta::assert_snapshot!(said("submit job.txt", 2), @"
    error: cannot detect the format of `job.txt`
    hint: set `--format yaml`, `toml` or `json`; a command goes after `--`
    ");
    insta::assert_snapshot!(said("submit python", 3), @"
    error: cannot read `python`
    caused by: No such file or directory (os error 2)
    hint: a command goes after `--`
    ");
    insta::assert_snapshot!(said("submit --limit files=3 -- true", 2), @"error: limits: `files` is unknown; expected one of as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, sigpending, stack");
    let error = said("submit --array 5-1 -- true", 2);
    assert!(error.contains("range `5-1` ends before it begins; swap its ends"), "{error}");
    let error = said("submit --memory 4096 -- true", 2);
    assert!(error.contains("write it with its unit"), "{error}");
}

#[test]
fn submit_to_slurm_or_ray_refuses_by_name_what_they_cannot_do() {
    let sandbox = Sandbox::new();
    let said = |words: &str| sandbox.wharf(&format!("submit --dry-run {words} -- true")).fails(2);
    let slurm = |words: &str| said(&format!("--slurm {words}"));
    insta::assert_snapshot!(slurm("--priority 3"), @"error: priority: a job of Slurm's own cannot have it; use `--slurm-option --nice=...`");
    insta::assert_snapshot!(slurm("--grace 30s"), @"error: grace: a job of Slurm's own cannot have it; use `--slurm-option --signal=...`");
    insta::assert_snapshot!(slurm("--account lab"), @"error: account: it is an account of Wharf's; name Slurm's as `executor: {slurm: {account: NAME}}`, or with `--slurm-option --account=NAME`");
    insta::assert_snapshot!(slurm("--gang 2-4"), @"error: gang.max: a job of Slurm's own cannot have it; its size is fixed; give `devices` alone");
    insta::assert_snapshot!(slurm("--container /img --runtime charliecloud --mount /a:/b:ro"), @"error: container.mounts.ro: ch-run cannot do that; leave it out");
    insta::assert_snapshot!(said("--ray-address http://n:8265 --priority 3"), @"error: priority: not supported on an existing Ray cluster; remove it");
    insta::assert_snapshot!(said("--ray-address http://n:8265 --container /img --runtime podman"), @"error: container.image: podman runs images by name, found the file `/img`; use `runtime: charliecloud` or `apptainer`");
    let user = sandbox.wharf("submit --ray-address http://n:8265 --user ann -- true").fails(2);
    insta::assert_snapshot!(user, @"error: user: a Ray cluster runs every job as its own user; remove `--user`");
    sandbox.write(
        "ray.yaml",
        "command: x\nlauncher: ray\nray: {head_args: [--port=26379, --dashboard-port=26379]}\n",
    );
    insta::assert_snapshot!(sandbox.wharf("submit ray.yaml --dry-run").fails(3), @"error: ray.yaml:3:7: ray.head_args: port 26379 is given to `--port` and to `--dashboard-port`; use different ports");
}

#[test]
fn slurm_script_has_the_container_and_asks_for_no_gpu_unasked() {
    let sandbox = Sandbox::new();
    let script = |words: &str| sandbox.wharf(&format!("submit --slurm --dry-run {words} -- echo hi")).ok();
    let boxed = script("--container img:1 --runtime podman --workdir /data");
    assert!(
        boxed.contains("'exec podman run --rm -v /data:/data -e RANK ")
            && boxed.contains(" img:1 echo hi'\n"),
        "{boxed}"
    );
    assert!(!script("").contains("podman"));

    let told = script(
        "--name two --gang 4 --time-limit 2h --slurm-option=--partition=gpu --slurm-option=--exclusive",
    );
    let options: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).collect();
    for expected in ["--job-name=two", "--partition=gpu", "--time=120", "--nodes=1", "--exclusive"] {
        assert!(options.contains(&expected), "{expected}: {told}");
    }
    assert!(told.starts_with("#!") && told.lines().nth(1).unwrap().starts_with("#SBATCH "), "{told}");
}

#[test]
fn jobs_of_a_file_run_in_their_order_and_are_followed() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    let trail = cluster.path("trail");
    let file = cluster.path("jobs.yaml");
    let text = format!(
        "
export: [NONE, PATH, GREETING]
workdir: {}
jobs:
- {{name: last, command: [sh, -c, 'echo last >> trail'], after_ok: [middle]}}
- {{name: first, command: [sh, -c, 'echo first >> trail']}}
- {{name: middle, command: [sh, -c, 'echo $GREETING$EDITOR >> trail'], after_ok: first}}
",
        cluster.path("").display()
    );
    std::fs::write(&file, text).unwrap();
    let mut submit = cluster.command(&["submit", "--wait", file.to_str().unwrap()]);
    let said = submit.env("GREETING", "hello").env("EDITOR", "vi").output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(said.stdout, b"0\n1\n2\n");
    assert_eq!(std::fs::read_to_string(&trail).unwrap(), "first\nhello\nlast\n");

    let followed = cluster.run(&["submit", "--follow", "--", "sh", "-c", "echo seen; exit 5"]);
    assert_eq!(followed.status.code(), Some(5));
    assert_eq!(String::from_utf8_lossy(&followed.stdout), "seen\n");
    assert!(String::from_utf8_lossy(&followed.stderr).starts_with("job 3\n"));

    let several = cluster.run(&["submit", "--follow", "--array", "0-1", "--", "true"]);
    assert_eq!(several.status.code(), Some(2));
}
