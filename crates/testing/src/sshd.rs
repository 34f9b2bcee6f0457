//! A private sshd on this machine.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::slurm::until;
use crate::{component, find};

/// An sshd that accepts the user of the test, with a key of its own.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    port: u16,
    key: PathBuf,
}

impl Sshd {
    /// Starts one that keeps its files in a folder, where its user has this home.
    pub fn start(folder: &Path, home: Option<&Path>) -> Self {
        component::SSHD.probe().expect("a test declares that it needs sshd");
        let key = folder.join("id");
        for path in [&key, &folder.join("host")] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output();
            assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
        }
        // Debian's searches for it, and is not started by its service here.
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
        Self { child, port, key }
    }

    /// How it is reached, as a cluster's file has it.
    pub fn auth(&self) -> String {
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
