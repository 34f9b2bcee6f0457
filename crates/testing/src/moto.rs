//! A private cloud: moto's server, which answers as Amazon's does, and Amazon's command line.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::component::{self, aws};
use crate::slurm::until;

/// moto's server.
#[derive(Debug)]
pub struct Cloud {
    child: Child,
    /// What programs have to know to reach it, and who they are there.
    pub env: Vec<(&'static str, OsString)>,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it.
pub fn start(folder: &Path) -> Cloud {
    start_by(folder, Command::new)
}

/// The same, with another way to run programs.
pub fn start_by(folder: &Path, run: impl FnOnce(PathBuf) -> Command) -> Cloud {
    component::AWS.probe().expect("a test declares that it needs moto");
    let (server, aws) = (aws("moto_server").unwrap(), aws("aws").unwrap());
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
    Cloud { child, env }
}
