//! Slurm's commands of administrators and of accounting on a real cluster.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::cluster::write;
use crate::slurm::{Lab, text};

fn own_name(flag: &str) -> String {
    let output = std::process::Command::new("id").arg(flag).output().unwrap();
    text(&output.stdout).trim().to_owned()
}

#[test]
fn accounts_and_limits_are_managed_with_sacctmgr() {
    let lab = Lab::new();
    std::fs::write(lab.cluster.path("limits.toml"), "# kept\n[user.ann]\ndevices = 3 # hers\n").unwrap();
    lab.say(&["limits", "apply", &lab.cluster.path("limits.toml").to_string_lossy()]);
    lab.say(&["sacctmgr", "-i", "add", "account", "vision", "Description=x"]);
    lab.say(&["sacctmgr", "-i", "add", "user", "ann,bob", "account=vision", "MaxJobs=5"]);
    lab.say(&["sacctmgr", "-i", "modify", "user", "where", "name=ann", "set", "GrpTRES=gres/gpu=8,cpu=4"]);
    lab.say(&["sacctmgr", "-i", "modify", "account", "vision", "set", "GrpJobs=20"]);
    let shown = lab.say(&[
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        "account=vision",
        "format=account,user,grpjobs,maxjobs,grptres,qos",
    ]);
    assert_eq!(shown, "vision||20|||normal\nvision|ann||5|gres/gpu=8,cpu=4|normal\nvision|bob||5||normal\n");
    // They are Wharf's own limits, and what an administrator wrote stays.
    let limits = lab.say(&["limits", "show"]);
    assert!(limits.contains("vision"), "{limits}");
    assert_eq!(lab.say(&["sacctmgr", "-nP", "list", "user", "bob", "format=user,defacct"]), "bob|vision\n");
    let account = lab.say(&["sacctmgr", "-n", "-s", "list", "user", &own_name("-un"), "format=account%256"]);
    assert_eq!(account.trim(), own_name("-gn"), "the account of jobs without one");

    // Without `-i` it asks, and nothing is changed by default.
    let asked = lab.run(&["sacctmgr", "delete", "user", "bob"]);
    assert_eq!((asked.status.code(), text(&asked.stdout).contains("Changes Discarded")), (Some(1), true));
    lab.say(&["sacctmgr", "-i", "delete", "user", "bob", "account=vision"]);
    lab.say(&["sacctmgr", "-i", "modify", "user", "ann", "set", "MaxJobs=-1"]);
    let shown = lab.say(&["sacctmgr", "-nP", "show", "assoc", "account=vision", "format=user,maxjobs"]);
    assert_eq!(shown, "|\nann|\n");
    for (words, expected) in [
        (&["-i", "delete", "user", "bob", "account=vision"][..], "Nothing deleted"),
        (&["-i", "modify", "user", "ann", "set", "Fairshare=5"], "Wharf has no limit fairshare"),
        (
            &["-i", "modify", "user", "ann", "where", "account=vision", "set", "MaxJobs=1"],
            "the condition account=vision is not supported",
        ),
        (
            &["-i", "modify", "user", "ann", "partition=main", "set", "MaxJobs=1"],
            "the condition partition=main",
        ),
        (&["-i", "modify", "account", "vision", "user=ann", "set", "GrpJobs=1"], "the condition user=ann"),
        (
            &["-i", "modify", "user", "ann", "cluster=other", "set", "MaxJobs=1"],
            "the condition cluster=other",
        ),
        (
            &["-i", "modify", "account", "speech", "set", "GrpJobs=1"],
            "Nothing modified: speech has no limits",
        ),
        (&["-i", "add", "user", "carl"], "Need name of account to add user to."),
        (&["show", "nonsense"], "Unknown entity: nonsense"),
        (&["show", "user", "format=nonsense"], "Unknown field 'nonsense'"),
    ] {
        let refused = lab.run(&[&["sacctmgr"], words].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(text(&refused.stderr).contains(expected), "{words:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn sacctmgr_does_not_overwrite_limits_that_changed_before_its_confirmation() {
    let lab = Lab::new();
    let mut command = lab.cluster.command(&["sacctmgr", "add", "account", "vision"]);
    let mut asked =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(asked.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(shown.any(|line| line.starts_with("Would you like to commit changes?")));
    lab.say(&["sacctmgr", "-i", "add", "account", "speech"]);
    asked.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let refused = asked.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("limits have changed meanwhile"), "{}", text(&refused.stderr));
    assert_eq!(lab.say(&["sacctmgr", "-nP", "show", "assoc", "account=speech,vision"]).lines().count(), 1);
}

#[test]
fn sacct_selects_by_every_form_of_time_and_shows_requests() {
    let lab = Lab::new();
    let options = [
        "--wait",
        "-n2",
        "--mem=100",
        "-t",
        "5",
        "--comment",
        "first try",
        "-o",
        "/dev/null",
        "-A",
        "vision",
    ];
    let id = lab.submit(&options, "srun -n1 true");
    lab.submit(&["--wait", "--array=1-3", "-J", "swarm", "-o", "/dev/null"], "true");
    let count = |words: &[&str]| {
        lab.say(&[&["sacct", "-X", "-n", "-P", "-o", "jobid"], words].concat()).lines().count()
    };
    for (words, expected) in [
        (&[][..], 4),
        (&["-S", "now-1hour"], 4),
        (&["-S", "2020-11-17T08:00", "-E", "now+1hour"], 4),
        (&["-S", "2020-11-17T08:00", "-E", "2020-11-18"], 0),
        (&["-S", "now+1day"], 0),
        (&["-j", "1_2"], 1),
        (&["-j", "1", "-S", "now-2hours"], 3),
        (&["-j", "0", "-j", "1_1,1_2"], 3),
        (&["--name", "swarm", "--clusters", "all"], 3),
        (&["--name", "swar"], 0),
        (&["-A", "vision"], 1),
        (&["-s", "F"], 0),
        (&["-u", "nobody"], 0),
    ] {
        assert_eq!(count(words), expected, "{words:?}");
    }
    let fields =
        "jobidraw,reqmem,reqtres,alloctres,ntasks,qos,comment,account,timelimitraw,reqcpus,user,totalcpu";
    let shown = lab.say(&["sacct", "-n", "-P", "-j", &id, "-o", fields]);
    let (user, tres) = (own_name("-un"), "cpu=2,mem=100M,node=1");
    let expected = [
        format!("0|100M|billing=2,{tres}|billing=2,{tres}||normal|first try|vision|5|2|{user}|00:00:00"),
        "0.batch|||cpu=2,node=1|1|||vision||2||00:00:00".to_owned(),
        "0.0|||cpu=1,node=1|1|||vision||1||00:00:00".to_owned(),
    ];
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    assert_eq!(lab.say(&["sacct", "-n", "-P", "-j", "0.0", "-o", "jobid"]), "0.0\n");
    let line = lab.say(&["sacct", "-X", "-n", "-P", "-j", &id, "-o", "submitline"]);
    assert!(line.starts_with("wharf sbatch --parsable --wait -n2"), "{line}");

    let json = lab.say(&["sacct", "--json", "-j", "0"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["state"]["current"], "COMPLETED");
    assert_eq!(job["required"], serde_json::json!({ "CPUs": 2, "memory": 100 }));
    assert_eq!(job["steps"].as_array().unwrap().len(), 2);
    assert_eq!(job["comment"]["job"], "first try");
    assert!(job["time"]["end"].as_u64() >= job["time"]["start"].as_u64(), "{job}");

    for (words, expected) in [
        (&["-o", "jobid,colour"][..], "Invalid field requested: \"colour\""),
        (&["-S", "soon"], "Invalid time specification (pos=0): soon"),
        (&["-j", "abc"], "Bad job/step specified: abc"),
        (&["-s", "bogus"], "unrecognized job state value 'bogus'"),
        (&["-M", "other"], "the cluster's name is `wharf`"),
    ] {
        let refused = lab.run(&[&["sacct"], words].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(text(&refused.stderr).contains(expected), "{words:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn configuration_reservations_steps_and_priorities_are_shown() {
    let lab = Lab::new();
    let limits = "[pool.main]\ntime_limit_max = \"2d\"\n\n[[reservation]]\nname = \"disks\"\nnodes = [\"n2\"]\nstart = \"+10d\"\nend = \"+11d\"\n";
    assert_eq!(lab.say(&["scontrol", "show", "reservation"]), "No reservations in the system\n");
    std::fs::write(lab.cluster.path("limits.toml"), limits).unwrap();
    lab.say(&["limits", "apply", &lab.cluster.path("limits.toml").to_string_lossy()]);
    let reservation = lab.say(&["scontrol", "-o", "show", "res", "disks"]);
    for part in [
        "ReservationName=disks ",
        "Duration=1-00:00:00 ",
        "Nodes=n2 NodeCnt=1 ",
        "Flags=MAINT",
        "State=INACTIVE",
    ] {
        assert!(reservation.contains(part), "{part} in {reservation}");
    }
    let partition = lab.say(&["scontrol", "-o", "show", "partition", "main"]);
    for part in [
        "PartitionName=main ",
        "Default=YES",
        "MaxTime=2-00:00:00 ",
        "Nodes=n[1-2] ",
        "TotalCPUs=8 TotalNodes=2",
    ] {
        assert!(partition.contains(part), "{part} in {partition}");
    }
    let config = lab.say(&["scontrol", "show", "config"]);
    for part in [
        "ClusterName             = wharf\n",
        "MinJobAge               = 300 sec\n",
        "MaxArraySize            = 1000001\n",
    ] {
        assert!(config.contains(part), "{part} in {config}");
    }

    let nodes = lab.say(&["sinfo", "-h", "-O", "partition:6,nodes:.3,statelong,cpusstate"]);
    assert_eq!(nodes, format!("{:<6}{:>3}{:<20}{:<20}\n", "main*", 2, "idle", "0/8/0/8"));
    let json: serde_json::Value = serde_json::from_str(&lab.say(&["sinfo", "--json"])).unwrap();
    assert_eq!((&json["nodes"][1]["name"], &json["nodes"][1]["cpus"]), (&"n2".into(), &4.into()));
    let refused = lab.run(&["sinfo", "-O", "nodes,colour"]);
    assert!(text(&refused.stderr).contains("Invalid node format specification: colour"));

    let (started, gate) = (lab.pipe("started"), lab.pipe("gate"));
    let body = format!("srun -n1 sh -c 'echo > {}; read line < {}'", started.display(), gate.display());
    let id = lab.submit(&["-J", "stepper", "-o", "out-%x"], &body);
    std::fs::read(&started).unwrap();
    let step = lab.say(&["scontrol", "-o", "show", "step", &format!("{id}.0")]);
    assert!(step.contains(&format!("StepId={id}.0 ")) && step.contains("Tasks=1 Name=sh"), "{step}");
    let job = lab.say(&["scontrol", "-o", "show", "job", &id]);
    let user = format!("UserId={}({}) ", own_name("-un"), own_name("-u"));
    assert!(job.contains("/out-stepper") && job.contains(&user) && !job.contains("%x"), "{job}");
    let held = lab.submit(&["-H", "--nice=7", "-o", "/dev/null"], "true");
    let priorities = lab.say(&["sprio", "-h", "-o", "%i %Y %N"]);
    assert_eq!(priorities, format!("{held} -7 7\n"));
    let shares = lab.say(&["sshare", "-U", "--format", "Account%256", "--noheader"]);
    assert_eq!(shares.trim(), own_name("-gn"));
    let counts = lab.say(&["sdiag"]);
    assert!(counts.contains("Jobs submitted: 2\n") && counts.contains("Jobs running:   1\n"), "{counts}");
    lab.say(&["scancel", &held]);
    write(&gate, "go\n");
    lab.until("the end", &id, "COMPLETED None");
}
