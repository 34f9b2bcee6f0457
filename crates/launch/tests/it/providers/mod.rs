//! One suite for all providers: machines are made, found again, reached, given back; nothing is made twice and nothing that is gone is missed.
//!
//! Each runs on the real thing: sshd, a program, a Slurm, the cloud's command line with a server that answers as the cloud does.

mod cloud;
mod lab;
mod suite;

use lab::{Lab, within};
use suite::Subject;
use wharf_testing::needs;
use wharf_testing::slurm::{Slurm, until};
use wharf_testing::sshd::Sshd;

#[test]
fn process() {
    let lab = Lab::new();
    let file = lab.file("cluster_name: lab\nprovider: {type: process, workers: 1}\n");
    Subject { lab: &lab, file, vanish: None, is_reached: true }.conforms();
}

#[test]
fn local() {
    needs!(SSHD);
    let lab = Lab::new();
    let sshd = Sshd::start(&lab.path(""), None);
    let file = lab.file(&format!(
        "cluster_name: lab\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: [localhost]}}\n{}",
        sshd.auth()
    ));
    Subject { lab: &lab, file, vanish: None, is_reached: true }.conforms();
    drop(sshd);
}

#[test]
fn exec() {
    needs!(PYTHON);
    let lab = Lab::new();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/machines/machines");
    let folder = lab.path("machines");
    let file = lab.file(&format!(
        "cluster_name: lab\nprovider: {{type: exec, command: ['{program}'], workers: 1, config: {{folder: '{}'}}}}\n",
        folder.display()
    ));
    let vanish = |id: &str| std::fs::remove_dir_all(id).unwrap();
    Subject { lab: &lab, file, vanish: Some(&vanish), is_reached: true }.conforms();
    assert_eq!(std::fs::read_dir(folder.join("lab")).unwrap().count(), 0);
}

#[test]
fn slurm() {
    needs!(SLURM, SSHD);
    if std::env::var_os(lab::WITHIN).is_none() {
        let slurm = Slurm::start(2, 2, 0);
        let home = lab::Lab::new();
        let conf = slurm.conf();
        within("providers::slurm", &[("SLURM_CONF", conf.as_os_str()), ("HOME", home.path("").as_os_str())]);
        // What was cancelled last may still be completing.
        until("the end of all jobs", || slurm.jobs("PENDING,RUNNING,COMPLETING").is_empty().then_some(()));
        assert_eq!(slurm.jobs("all").len(), slurm.jobs("CANCELLED").len(), "jobs are left");
        return;
    }
    let lab = Lab::new();
    let file = |more: &str, auth: &str| {
        lab.file(&format!(
            "cluster_name: lab\nprovider: {{type: slurm, workers: 1, options: ['--mem=10M', '--cpus-per-task=2'], queue_timeout_s: 60{more}}}\n{auth}"
        ))
    };
    let vanish = |id: &str| assert!(lab::run("scancel", &[id]).status.success());
    Subject { lab: &lab, file: file("", ""), vanish: Some(&vanish), is_reached: true }.conforms();
    // The nodes of this Slurm are all this machine.
    let sshd = Sshd::start(&lab.path(""), None);
    let by_ssh = file(", reach: ssh", &sshd.auth());
    Subject { lab: &lab, file: by_ssh, vanish: Some(&vanish), is_reached: true }.conforms();
}

#[test]
fn aws() {
    needs!(AWS, SSHD);
    cloud::conforms();
}
