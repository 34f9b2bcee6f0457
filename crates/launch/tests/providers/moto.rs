//! A cloud of one's own: moto's server answers as Amazon's does, and Amazon's command line asks it.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::slurm::{find, until};
use crate::sshd::not_run;

/// The folder with the programs of moto and of the cloud's command line.
const PROGRAMS: &str = "WHARF_TEST_AWS";

/// moto's server.
pub(crate) struct Cloud {
    child: Child,
    /// What programs have to know to reach it, and who they are there.
    pub(crate) env: Vec<(&'static str, OsString)>,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(PROGRAMS).map(PathBuf::from);
    folder.map(|folder| folder.join(name)).filter(|path| path.is_file()).or_else(|| find(name))
}

/// Starts it, or says loudly what is missing.
pub(crate) fn start(folder: &Path) -> Option<Cloud> {
    start_by(folder, Command::new)
}

/// The same, where somebody else says how programs are run.
pub(crate) fn start_by(folder: &Path, run: impl FnOnce(PathBuf) -> Command) -> Option<Cloud> {
    let (Some(server), Some(aws)) = (program("moto_server"), program("aws")) else {
        not_run(&format!(
            "there is no moto_server or no aws; pip install 'moto[server]' awscli, and say where with {PROGRAMS}"
        ));
        return None;
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let log = std::fs::File::create(folder.join("moto.log")).unwrap();
    let mut command = run(server);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let child = command.spawn().unwrap();
    // It may be in a network that only programs there can ask.
    let said = || std::fs::read_to_string(folder.join("moto.log")).unwrap_or_default();
    until("moto's server", || said().contains(&format!("Running on http://127.0.0.1:{port}")).then_some(()));
    let mut path = OsString::from(aws.parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let env = vec![
        ("PATH", path),
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}").into()),
        ("AWS_ACCESS_KEY_ID", "test".into()),
        ("AWS_SECRET_ACCESS_KEY", "test".into()),
        ("AWS_EC2_METADATA_DISABLED", "true".into()),
    ];
    Some(Cloud { child, env })
}
