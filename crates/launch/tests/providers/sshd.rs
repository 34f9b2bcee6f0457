//! An sshd of one's own on this machine.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::slurm::{find, until};

/// Says loudly that a test did not run.
pub(crate) fn not_run(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not captured: it is to be seen.
    std::io::stderr().write_all(format!("NOT RUN: {test}: {why}\n").as_bytes()).unwrap();
}

/// An sshd that lets in whoever runs the test, with a key of its own.
pub(crate) struct Sshd {
    child: Child,
    port: u16,
    key: PathBuf,
}

impl Sshd {
    /// Starts one that keeps its files in a folder, where its user has this home.
    pub(crate) fn start(folder: &Path, home: Option<&Path>) -> Option<Self> {
        let missing = ["sshd", "ssh", "ssh-keygen", "rsync"].into_iter().find(|name| find(name).is_none());
        if let Some(name) = missing {
            not_run(&format!("there is no `{name}`; apt-get install openssh-server rsync"));
            return None;
        }
        let key = folder.join("id");
        for path in [&key, &folder.join("host")] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output();
            assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
        }
        // Debian's looks for it, and is not started by its service here.
        if nix::unistd::geteuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        std::fs::copy(folder.join("id.pub"), folder.join("authorized")).unwrap();
        std::fs::set_permissions(folder.join("authorized"), PermissionsExt::from_mode(0o600)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {f}host\nPidFile none\nAuthorizedKeysFile {f}authorized\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin prohibit-password\n\
             StrictModes no\nUseDNS no\nMaxSessions 50\nPrintMotd no\nPrintLastLog no\nLogLevel ERROR\n",
            f = folder.join("").display()
        );
        let home = home.map(|home| format!("SetEnv HOME={}\n", home.display()));
        let file = folder.join("sshd.conf");
        std::fs::write(&file, settings + &home.unwrap_or_default()).unwrap();
        let mut command = Command::new(find("sshd").unwrap());
        command.args(["-D", "-e", "-f"]).arg(file).stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        until("sshd", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(Self { child, port, key })
    }

    /// How it is reached, as a cluster's file has it.
    pub(crate) fn auth(&self) -> String {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
        format!(
            "auth: {{ssh_user: {user}, ssh_port: {}, ssh_private_key: '{}', ssh_options: {{HostName: 127.0.0.1}}}}\n",
            self.port,
            self.key.display()
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Connections that are kept end with it: their server does.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
