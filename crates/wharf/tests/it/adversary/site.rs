//! A cluster under attack: a head and workers that run as root, and users with accounts of their own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::User;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::sandbox::{Said, program};
use wharf_testing::component;

/// Longer than any condition here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A Unix account that exists as long as this value.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// A folder that only this user may enter.
    pub(crate) home: PathBuf,
    /// The user's access token.
    pub(crate) token: PathBuf,
}

impl Account {
    fn create(label: &str, folder: &Path) -> Self {
        let name = format!("wht-{label}-{}", std::process::id());
        let home = folder.join(label);
        let done =
            Command::new("useradd").args(["--no-create-home", "--home-dir"]).arg(&home).arg(&name).output();
        let done = done.unwrap();
        assert!(done.status.success(), "useradd: {}", String::from_utf8_lossy(&done.stderr));
        let user = User::from_name(&name).unwrap().unwrap();
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        fs::create_dir(&home).unwrap();
        chown(&home, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        let token = home.join("token");
        Self { name, uid, gid, home, token }
    }

    /// Writes a file that belongs to the user.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.home.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(self.uid), Some(self.gid)).unwrap();
        path
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let _held = accounts_lock();
        let _ = Command::new("userdel").arg(&self.name).output();
    }
}

/// Held while the account files change: `useradd` fails where another one is at work.
fn accounts_lock() -> File {
    let file = File::create(std::env::temp_dir().join("wharf-test-accounts.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// Removes accounts that a killed test has left.
fn remove_stale_accounts() {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    for name in passwd.lines().filter_map(|line| line.split(':').next()) {
        let pid = name.strip_prefix("wht-").and_then(|rest| rest.rsplit('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = Command::new("userdel").arg(name).output();
        }
    }
}

/// A root head, the users `ann` and `bob`, and a folder for all of it.
pub(crate) struct Site {
    pub(crate) ann: Account,
    pub(crate) bob: Account,
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
}

impl Site {
    /// A site without a running head.
    pub(crate) fn new() -> Self {
        component::ROOT.probe().expect("a test declares that it needs root");
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let _held = accounts_lock();
        remove_stale_accounts();
        let [ann, bob] = ["ann", "bob"].map(|label| Account::create(label, folder.path()));
        Self { ann, bob, port, folder }
    }

    /// The state directory of head and workers, which only root may enter.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Starts the head with more options, and gives the users their tokens. The administrator, who is root, may submit jobs.
    pub(crate) fn head(&self, more: &[&str]) -> Daemon {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut words = vec!["head", "--listen", &listen, "--allow-root"];
        words.extend(more);
        let head = Daemon::start(&mut self.admin_command(&words), "listens on");
        for account in [&self.ann, &self.bob] {
            if !account.token.exists() {
                let file = account.token.to_str().unwrap();
                self.admin(&["token", "create", "--user", &account.name, "--to", file]).ok();
                chown(&account.token, Some(account.uid), Some(account.gid)).unwrap();
            }
        }
        head
    }

    /// Starts a worker of the head with more options, such as `--devices a40:2`.
    pub(crate) fn worker(&self, node: &str, more: &[&str]) -> Daemon {
        let mut words = vec!["worker", "--node", node];
        words.extend(more);
        Daemon::start(&mut self.admin_command(&words), "accepted this worker")
    }

    /// A command of the administrator.
    pub(crate) fn admin_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).env("WHARF_HOME", self.state()).env("WHARF_CONFIG", "/dev/null");
        command.env("XDG_STATE_HOME", self.folder.path().join("admin-state")).stdin(Stdio::null());
        command
    }

    /// Runs a command as the administrator.
    pub(crate) fn admin(&self, words: &[&str]) -> Said {
        Said::from(&self.admin_command(words).output().unwrap())
    }

    /// A command of a user: their uid, their token, nothing of the administrator's environment.
    pub(crate) fn user_command(&self, user: &Account, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).env_clear().uid(user.uid).gid(user.gid).current_dir(&user.home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &user.home).env("USER", &user.name);
        command.env("WHARF_CONFIG", "/dev/null").env("WHARF_HEAD", format!("127.0.0.1:{}", self.port));
        command.env("WHARF_TOKEN_FILE", &user.token).stdin(Stdio::null());
        command
    }

    /// Runs a command as a user.
    pub(crate) fn as_user(&self, user: &Account, words: &[&str]) -> Said {
        Said::from(&self.user_command(user, words).output().unwrap())
    }
}

/// Waits until a condition holds; fails with its name if it never does.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not reached: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
