//! What can go wrong with machines: each time it is explained, and a further `wharf up` puts it right.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use wharf_testing::needs;

use crate::launch::lab::until;
use crate::launch::ssh::{Machines, keygen, own_program};

#[test]
fn every_failure_is_explained_and_repaired() {
    needs!(NAMESPACES, SSHD);
    let mut machines = Machines::new();
    machines.lab.write("data", &"x".repeat(1 << 20));
    let good = format!("file_mounts: {{~/data: data}}\n{}", own_program());
    machines.describe(&good);

    // An unknown key: nothing comes up, and the launcher does not wait for a change.
    let id = machines.lab.path("id");
    std::fs::rename(&id, machines.lab.path("id.away")).unwrap();
    std::fs::copy(machines.lab.path("stranger"), &id).unwrap();
    let said = machines.up(&[]).ends(13);
    assert!(said.stderr.contains("it refuses the key or the user"), "{said:?}");
    std::fs::rename(machines.lab.path("id.away"), &id).unwrap();
    machines.up(&[]).ends(0);

    // Another machine at the same address.
    machines.wharf(&["down", "c.yaml", "--yes"]).ends(0);
    machines.up(&[]).ends(0);
    machines.cut_power("nd2");
    for ending in ["", ".pub"] {
        std::fs::remove_file(machines.lab.path(&format!("nd2.hostkey{ending}"))).unwrap();
    }
    keygen(&machines.lab.path("nd2.hostkey"));
    machines.boot("nd2");
    let said = machines.up(&[]).ends(12);
    assert_eq!(said.phases(), ["reach", "failed", "reach"]);
    assert!(said.stderr.contains("its host key is not the one that was seen before"), "{said:?}");
    let known = machines.lab.state("ns").join("known_hosts");
    assert!(said.stderr.contains(&format!("ssh-keygen -f {}", known.display())), "{said:?}");
    let forget = Command::new("ssh-keygen").arg("-f").arg(&known).args(["-R", "[10.77.0.2]:2222"]).output();
    assert!(forget.unwrap().status.success());
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach", "reach start", "reach"]);

    // There is no listener; then one that does not answer. On a busy machine a healthy node may need seconds to be reached, and
    // be prepared by a later launcher only: what the others do then is not asserted.
    machines.wharf(&["down", "c.yaml", "--yes"]).ends(0);
    machines.stop_sshd("nd3");
    machines.describe_within(6, &good);
    let said = machines.up(&[]).ends(12);
    assert!(
        said.stderr.contains("10.77.0.3: it cannot be reached: ")
            && said.stderr.contains("Connection refused"),
        "{said:?}"
    );
    machines.start_sshd("nd3");
    machines.freeze_sshd("nd3");
    let said = machines.up(&[]).ends(12);
    assert!(said.stderr.contains("timed out"), "{said:?}");
    machines.thaw_sshd("nd3");
    machines.describe(&good);
    assert_eq!(machines.up(&[]).ends(0).phases()[2], "reach sync start");

    // A disk that is full.
    machines.lab.write("data", &"y".repeat(1 << 20));
    let small = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
    let home = machines.lab.path("full");
    std::fs::create_dir(&home).unwrap();
    let away = machines.disk("nd3").join("data");
    std::fs::remove_file(&away).unwrap();
    std::os::unix::fs::symlink(home.join("data"), &away).unwrap();
    assert!(machines.machine("nd3").command("mount").args(small).arg(&home).status().unwrap().success());
    machines.describe(&good.replace("~/data:", &format!("{}/data:", home.display())));
    let said = machines.up(&[]).ends(12);
    assert!(said.stderr.contains("No space left on device"), "{said:?}");
    machines.describe(&good);
    assert_eq!(machines.up(&[]).ends(0).phases()[2], "reach sync", "a failed copy is not forgotten");
    machines.down();
}

/// A line that states that it is there, and stays.
fn stays(machines: &Machines, name: &str) -> String {
    format!("'echo > {}; sleep 600'", machines.lab.path(name).display())
}

#[test]
fn a_launcher_is_interrupted_in_any_phase_and_the_next_continues() {
    needs!(NAMESPACES, SSHD);
    let mut machines = Machines::new();
    let keys = |line: &str, phase: &str| {
        let line = |name: &str| if name == phase { line.to_owned() } else { "'true'".to_owned() };
        format!(
            "initialization_commands: [{}]\nsetup_commands: [{}]\nhead_start_ray_commands: []\nworker_start_ray_commands: [{}]",
            line("initialise"),
            line("setup"),
            line("start")
        )
    };
    for phase in ["initialise", "setup", "start"] {
        machines.describe(&keys(&stays(&machines, phase), phase));
        interrupt(&machines, &format!(": {phase} ("), &|| machines.lab.path(phase).exists());
        machines.describe(&keys("", "none"));
        let said = machines.up(&[]).ends(0);
        assert!(said.stderr.contains("the last attempt did not end well"), "{phase}: {said:?}");
        assert_eq!(machines.count("sleep 600"), 0, "{phase}: what was left has been ended");
    }
    // While a file is on its way, over a slow line.
    let noise: String =
        (0..1_u64 << 18).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    machines.lab.write("data", &noise);
    machines.describe(&format!("file_mounts: {{~/data: data}}\n{}", keys("", "none")));
    let slow =
        ["qdisc", "add", "dev", "nd2", "root", "tbf", "rate", "1mbit", "burst", "32kb", "latency", "50ms"];
    assert!(machines.hub().command("tc").args(slow).status().unwrap().success());
    let is_partly_there = || {
        let mut names = std::fs::read_dir(machines.disk("nd2")).unwrap().flatten();
        names.any(|entry| entry.file_name().to_string_lossy().starts_with(".data."))
    };
    interrupt(&machines, "10.77.0.2: sync (", &is_partly_there);
    assert!(
        machines.hub().command("tc").args(["qdisc", "del", "dev", "nd2", "root"]).status().unwrap().success()
    );
    let said = machines.up(&[]).ends(0);
    assert!(said.stderr.contains("10.77.0.2: sync (the last attempt did not end well)"), "{said:?}");
    assert_eq!(std::fs::read_to_string(machines.disk("nd2").join("data")).unwrap(), noise);
    // The other side of a copy ends a moment after this one.
    until("the end of all copies", || (machines.count("rsync") == 0).then_some(()));
    machines.describe(&keys("", "none"));
    machines.up(&[]).ends(0);
    // In the first phase, while a machine does not answer.
    machines.cut_power("nd2");
    interrupt(&machines, "10.77.0.2: does not answer yet", &|| true);
    machines.boot("nd2");
    machines.up(&[]).ends(0);
    machines.down();
}

/// Interrupts a launcher when it has said something and the phase has begun.
fn interrupt(machines: &Machines, sign: &str, has_begun: &dyn Fn() -> bool) {
    let mut command = machines.command(&["up", "c.yaml", "-v"]);
    let mut up = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(up.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains(sign)), "it never said `{sign}`");
    until("the phase to begin", || has_begun().then_some(()));
    kill(Pid::from_raw(up.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert!(said.any(|line| line.contains("repeat `wharf up` to continue")));
    assert_eq!(up.wait().unwrap().code(), Some(130));
}
