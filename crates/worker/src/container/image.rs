//! Images on a node: each is pulled or unpacked once while other tasks wait, and the least recently used are removed first.
//!
//! Every user has a cache of their own: what is unpacked from a user's file is accessed with that user's rights only, and no other user
//! runs files of other users. A process holds the images that it runs from with a shared lock for as long as it lives.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde::{Deserialize, Serialize};

use super::spec::short_digest;
use super::{Contained, ContainerRuntime, Gpus, docker};
use crate::state_dir;

/// The ending of what is noted of an engine's images.
const IMPORTED: &str = "imported";
/// What begins an instance of apptainer, in its image.
const INSTANCE_START: &str = ".singularity.d/actions/start";

/// An image that the runtime can be given.
pub(crate) struct Ready {
    /// As its command line has it.
    pub(crate) image: String,
    /// Charliecloud's store, where it is a name in it.
    pub(crate) store: Option<PathBuf>,
    /// Inherited by whatever this process becomes, so that the image is not pruned under it.
    _held: Option<File>,
}

impl Ready {
    pub(super) fn known(image: &str) -> Self {
        Self { image: image.to_owned(), store: None, _held: None }
    }

    /// The folder of its files, where it is one.
    pub(crate) fn files(&self) -> PathBuf {
        match &self.store {
            Some(store) => stored_at(store, &self.image),
            None => PathBuf::from(&self.image),
        }
    }
}

/// What the text of an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Tar,
    Squash,
    Sif,
    /// Something that the runtime knows, or pulls.
    Name,
}

impl Kind {
    fn of(image: &str) -> Result<Self, String> {
        if !image.starts_with('/') {
            return Ok(Self::Name);
        }
        let path = Path::new(image);
        let is_any = |endings: &[&str]| endings.iter().any(|ending| image.ends_with(ending));
        match path.metadata() {
            Err(error) => Err(format!("cannot get image {image} on this node: {error}")),
            Ok(found) if found.is_dir() => Ok(Self::Folder),
            Ok(_) if is_any(&[".sif"]) => Ok(Self::Sif),
            Ok(_) if is_any(&[".sqfs", ".squashfs"]) => Ok(Self::Squash),
            Ok(_) if is_any(&[".tar", ".tar.gz", ".tgz", ".tar.xz"]) => Ok(Self::Tar),
            Ok(_) => Err(format!(
                "the image {image} is neither a directory nor one of .tar, .tar.gz, .tgz, .tar.xz, .sqfs, .sif"
            )),
        }
    }
}

/// The cache folder of a user.
pub(crate) fn folder(contained: &Contained, uid: u32) -> PathBuf {
    contained.state_dir.join("images").join(uid.to_string())
}

/// Makes an image ready for its runtime, if no other task has done so.
pub(crate) fn ready(contained: &Contained) -> Result<Ready, String> {
    let image = contained.spec.image.as_str();
    let cache = Cache { folder: folder(contained, nix::unistd::geteuid().as_raw()), contained };
    let plain = |image: &str| Ok(Ready::known(image));
    let name = image.strip_prefix("docker://").unwrap_or(image);
    match (contained.runtime, Kind::of(image)?) {
        // Without the engine's program there is nothing to import or pull with.
        (ContainerRuntime::Docker | ContainerRuntime::Podman, Kind::Name) if contained.program.is_empty() => {
            plain(name)
        }
        (ContainerRuntime::Docker | ContainerRuntime::Podman, Kind::Name) => cache.pulled(name),
        (ContainerRuntime::Docker | ContainerRuntime::Podman, Kind::Sif)
        | (ContainerRuntime::Charliecloud, Kind::Sif) => {
            Err(format!("{} cannot run {image}; use apptainer", contained.runtime.word()))
        }
        (ContainerRuntime::Docker | ContainerRuntime::Podman, kind) => cache.imported(image, kind),
        (ContainerRuntime::Charliecloud, Kind::Folder) => cache.equipped(Ready::known(image)),
        (ContainerRuntime::Charliecloud, Kind::Name) => cache.equipped(cache.stored(name)?),
        (ContainerRuntime::Charliecloud, kind) => cache.equipped(cache.unpacked(image, kind)?),
        (ContainerRuntime::Apptainer | ContainerRuntime::Singularity, Kind::Folder)
            if contained.spec.per_node && !Path::new(image).join(INSTANCE_START).exists() =>
        {
            cache.packed(image)
        }
        (ContainerRuntime::Apptainer | ContainerRuntime::Singularity, Kind::Folder | Kind::Sif) => {
            plain(image)
        }
        (ContainerRuntime::Apptainer | ContainerRuntime::Singularity, Kind::Name) => cache.built(name),
        (_, kind) => cache.unpacked(image, kind),
    }
}

/// What is noted of an image that an engine has because of this cache.
#[derive(Serialize, Deserialize)]
struct Imported {
    name: String,
    bytes: u64,
    /// The engine's program and the options before its command.
    prefix: Vec<String>,
}

impl Imported {
    /// Of an entry of the cache, where it is one.
    fn read(place: &Path) -> Option<Self> {
        place.extension().filter(|ending| *ending == IMPORTED)?;
        serde_json::from_str(&fs::read_to_string(place).ok()?).ok()
    }

    /// Has the engine remove it; true if it is gone.
    fn forget(&self) -> bool {
        let words = |words: &[&str]| -> Vec<String> {
            self.prefix.iter().cloned().chain(words.iter().map(|word| (*word).to_owned())).collect()
        };
        tool(&words(&["image", "rm", &self.name])).is_ok()
            || tool(&words(&["image", "inspect", &self.name])).is_err()
    }
}

struct Cache<'a> {
    folder: PathBuf,
    contained: &'a Contained,
}

impl Cache<'_> {
    /// Does something once for all tasks; `make` gets the path of what is to be there in the end.
    fn once(&self, key: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<Ready, String> {
        let failed =
            |error: std::io::Error| format!("cannot use the cache {}: {error}", self.folder.display());
        let held = self.hold(key).map_err(failed)?;
        let place = self.folder.join(key);
        let ready = |held| Ok(Ready { _held: Some(held), ..Ready::known(&place.to_string_lossy()) });
        if place.exists() {
            return ready(held);
        }
        let gate = state_dir::open(&self.folder.join(format!("{key}.lock"))).map_err(failed)?;
        if matches!(gate.try_lock(), Err(TryLockError::WouldBlock)) {
            super::enter::say(&format!("waits for the image {key}, which another task gets ready"));
            gate.lock().map_err(failed)?;
        }
        if place.exists() {
            return ready(held);
        }
        let part = self.folder.join(format!("{key}.part"));
        remove(&part).map_err(failed)?;
        make(&part)?;
        fs::rename(&part, &place).map_err(failed)?;
        self.prune().map_err(failed)?;
        ready(held)
    }

    /// States that an image is in use, from now until the last process that has the file is gone.
    fn hold(&self, key: &str) -> std::io::Result<File> {
        let file = state_dir::open(&self.folder.join(format!("{key}.use")))?;
        file.lock_shared()?;
        file.set_modified(SystemTime::now())?;
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(file)
    }

    /// A folder out of an archive.
    fn unpacked(&self, image: &str, kind: Kind) -> Result<Ready, String> {
        self.once(&key(image)?, |part| unpack(image, kind, part, self.contained.runtime))
    }

    /// A file out of a registry.
    fn built(&self, name: &str) -> Result<Ready, String> {
        let key = built_name(name);
        self.once(&key, |part| {
            super::enter::say(&format!("pulls the image {name}"));
            let mut words = self.contained.program.clone();
            words.extend(["pull", "--force"].map(String::from));
            if wharf_image::is_local(name) {
                words.push("--no-https".to_owned());
            }
            if let (ContainerRuntime::Apptainer, Some(folder)) = (self.contained.runtime, login()) {
                let file = wharf_image::login_file(&folder);
                words.extend(["--authfile".to_owned(), file.to_string_lossy().into_owned()]);
            }
            words.extend([part.to_string_lossy().into_owned(), format!("docker://{name}")]);
            tool(&words)
        })
    }

    /// A file out of a folder that others have made: apptainer's instances are begun by a script that only it puts there.
    fn packed(&self, image: &str) -> Result<Ready, String> {
        self.once(&format!("{}.sif", key(image)?), |part| {
            let words = ["build", "--force", &part.to_string_lossy(), image].map(String::from);
            tool(&[self.contained.program.clone(), words.to_vec()].concat())
        })
    }

    /// An image of an engine: pulled where it does not have it. What it is once told, it keeps.
    fn pulled(&self, name: &str) -> Result<Ready, String> {
        let prefix = docker::prefix(self.contained);
        let word =
            |words: &[&str]| [prefix.clone(), words.iter().map(|word| (*word).to_owned()).collect()].concat();
        let mark = |part: &Path| {
            if tool(&word(&["image", "inspect", name])).is_err() {
                super::enter::say(&format!("pulls the image {name}"));
                tool(&self.pull(name))?;
            }
            fs::write(part, name).map_err(|error| error.to_string())
        };
        let key = format!("{}.{}", named(name), short_digest(prefix.join(" ").as_bytes()));
        self.once(&key, mark)?;
        Ok(Ready::known(name))
    }

    /// The engine's words for it: with the user's login, and without TLS from this machine, which docker knows by itself.
    fn pull(&self, name: &str) -> Vec<String> {
        let mut words = docker::prefix(self.contained);
        let (login, is_docker) = (login(), self.contained.runtime == ContainerRuntime::Docker);
        if let (Some(folder), true) = (&login, is_docker) {
            words.extend(["--config".to_owned(), folder.to_string_lossy().into_owned()]);
        }
        words.push("pull".to_owned());
        if let (Some(folder), false) = (&login, is_docker) {
            let file = wharf_image::login_file(folder);
            words.extend(["--authfile".to_owned(), file.to_string_lossy().into_owned()]);
        }
        if !is_docker && wharf_image::is_local(name) {
            words.push("--tls-verify=false".to_owned());
        }
        words.push(name.to_owned());
        words
    }

    /// An image of an engine, made from a folder or an archive.
    fn imported(&self, image: &str, kind: Kind) -> Result<Ready, String> {
        let prefix = docker::prefix(self.contained);
        if prefix.is_empty() {
            return Err(format!(
                "{image} can be imported with docker's or podman's program only; install it"
            ));
        }
        let key = key(image)?;
        let name = format!("localhost/wharf/{}:latest", key.to_lowercase());
        let make = |part: &Path| {
            let import = [prefix.clone(), vec!["import".into(), "-".into(), name.clone()]].concat();
            match kind {
                Kind::Squash => {
                    let folder = part.with_extension("tree");
                    remove(&folder).map_err(|error| error.to_string())?;
                    unpack(image, kind, &folder, self.contained.runtime)?;
                    let imported = pipe(&folder, &import);
                    remove(&folder).map_err(|error| error.to_string())?;
                    imported?;
                }
                Kind::Folder => pipe(Path::new(image), &import)?,
                _ => tool(&[prefix.clone(), vec!["import".into(), image.to_owned(), name.clone()]].concat())?,
            }
            let mark =
                Imported { bytes: self.imported_bytes(&name), name: name.clone(), prefix: prefix.clone() };
            let text = serde_json::to_string(&mark).map_err(|error| error.to_string())?;
            fs::write(part, text).map_err(|error| error.to_string())
        };
        let key = format!("{key}.{}.{IMPORTED}", short_digest(prefix.join(" ").as_bytes()));
        let made = self.once(&key, make)?;
        Ok(Ready { image: name, ..made })
    }

    /// What an image takes of the engine's disk; nothing where it does not say.
    fn imported_bytes(&self, name: &str) -> u64 {
        let size = ["image", "inspect", "--format", "{{.Size}}", name].map(String::from);
        let said = answer(&[docker::prefix(self.contained), size.to_vec()].concat());
        said.ok().and_then(|said| said.trim().parse().ok()).unwrap_or_default()
    }

    /// A name of charliecloud's own store. It is run by its name: the store's folders are refused.
    fn stored(&self, name: &str) -> Result<Ready, String> {
        let store = std::env::var_os("CH_IMAGE_STORAGE").map(PathBuf::from).unwrap_or_else(|| {
            let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
            PathBuf::from(format!("/var/tmp/{}.ch", user.map(|user| user.name).unwrap_or_default()))
        });
        let there = stored_name(&store, name);
        if there.is_none() {
            let pull = |part: &Path| {
                super::enter::say(&format!("pulls the image {name}"));
                tool(&["ch-image", "pull", name].map(String::from))?;
                fs::write(part, name).map_err(|error| error.to_string())
            };
            self.once(&named(name), pull)?;
        }
        let name = there.unwrap_or(name);
        Ok(Ready { store: Some(store), ..Ready::known(name) })
    }

    /// Puts the driver's libraries into an image of charliecloud, once, where its tasks have such devices and the site states this.
    fn equipped(&self, ready: Ready) -> Result<Ready, String> {
        let files = ready.files();
        if !self.contained.from_host || !matches!(self.contained.gpus, Gpus::Nvidia(_)) {
            return Ok(ready);
        }
        // By which folder it is, not by when it was written: what is put into it changes that.
        let found = files.metadata().map_err(|error| format!("cannot read {}: {error}", files.display()))?;
        let facts = format!("{} {} {}", files.display(), found.dev(), found.ino());
        let key = format!("{}.nvidia", short_digest(facts.as_bytes()));
        self.once(&key, |part| {
            super::enter::say("puts the driver's libraries into the image");
            // It comes with the same installation.
            let program = Path::new(self.contained.program.first().map_or("ch-run", String::as_str));
            let program = program.with_file_name("ch-fromhost").to_string_lossy().into_owned();
            tool(&[program, "--nvidia".to_owned(), files.to_string_lossy().into_owned()])?;
            fs::write(part, "").map_err(|error| error.to_string())
        })?;
        Ok(ready)
    }

    /// Removes what was used least recently until the rest is small enough; what is in use stays.
    fn prune(&self) -> std::io::Result<()> {
        if self.contained.cache_bytes == 0 {
            return Ok(());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(key) = name.strip_suffix(".use") else { continue };
            let used = entry.metadata()?.modified()?;
            let place = self.folder.join(key);
            let bytes = Imported::read(&place).map_or_else(|| size(&place), |imported| imported.bytes);
            entries.push((used, key.to_owned(), bytes));
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(.., bytes)| bytes).sum();
        for (_, key, bytes) in entries {
            if total <= self.contained.cache_bytes {
                break;
            }
            let in_use = state_dir::open(&self.folder.join(format!("{key}.use")))?;
            let place = self.folder.join(&key);
            // An engine refuses to remove what a container still has.
            if bytes > 0 && in_use.try_lock().is_ok() && Imported::read(&place).is_none_or(|one| one.forget())
            {
                remove(&place)?;
                total -= bytes;
            }
        }
        Ok(())
    }
}

/// What a store of charliecloud has an image under. `ch-image` takes a name with and without `:latest` for the same, and `ch-run`
/// does not.
pub(super) fn stored_name<'a>(store: &Path, name: &'a str) -> Option<&'a str> {
    let short = name.strip_suffix(":latest").unwrap_or(name);
    [name, short].into_iter().find(|name| stored_at(store, name).is_dir())
}

/// Name in the cache of the file that apptainer builds from a registry's image.
pub(super) fn built_name(name: &str) -> String {
    format!("{}.sif", named(name))
}

/// The folder of a name in charliecloud's store.
fn stored_at(store: &Path, name: &str) -> PathBuf {
    store.join("img").join(name.replace('/', "%").replace(':', "+"))
}

/// The folder with the user's logins at registries, where there are any.
fn login() -> Option<PathBuf> {
    wharf_image::logins().filter(|folder| wharf_image::login_file(folder).exists())
}

/// Name of a file in the cache: a changed file has another.
fn key(image: &str) -> Result<String, String> {
    let name = Path::new(image).file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{}-{}", named(&name), identity(image)?))
}

/// Identity of an image that is a file or a folder: it changes when the image is written again.
pub(super) fn identity(image: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read the image {image}: {error}");
    let path = fs::canonicalize(image).map_err(failed)?;
    let found = path.metadata().map_err(failed)?;
    let facts = format!("{} {} {} {}", path.display(), found.len(), found.mtime(), found.mtime_nsec());
    Ok(short_digest(facts.as_bytes()))
}

/// A name with which a file can be called.
fn named(name: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    name.chars().map(plain).collect::<String>().trim_start_matches(['.', '-']).to_owned()
}

fn unpack(image: &str, kind: Kind, folder: &Path, runtime: ContainerRuntime) -> Result<(), String> {
    super::enter::say(&format!("unpacks the image {image}"));
    let folder = folder.to_string_lossy().into_owned();
    if runtime == ContainerRuntime::Charliecloud {
        let form = if kind == Kind::Squash { "squash" } else { "tar" };
        return tool(&["ch-convert", "-i", form, "-o", "dir", image, &folder].map(String::from));
    }
    if kind == Kind::Squash {
        return tool(&["unsquashfs", "-q", "-n", "-d", &folder, image].map(String::from));
    }
    fs::create_dir(&folder).map_err(|error| format!("cannot make {folder}: {error}"))?;
    tool(&["tar", "-C", &folder, "--no-same-owner", "-xf", image].map(String::from))
}

/// Runs a program whose words are of interest only where it fails.
pub(super) fn tool(words: &[String]) -> Result<(), String> {
    answer(words).map(drop)
}

/// As [`tool`], and what it printed.
pub(super) fn answer(words: &[String]) -> Result<String, String> {
    let (program, rest) = words.split_first().ok_or("no program given")?;
    let output = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `{program}`: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown: Vec<&str> = words.iter().map(String::as_str).take(6).collect();
    Err(format!("`{}` failed ({}): {last}", shown.join(" "), output.status))
}

/// A folder as an archive into a program.
fn pipe(folder: &Path, words: &[String]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot import {}: {error}", folder.display());
    let (program, rest) = words.split_first().ok_or("no program given")?;
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder).args(["-cf", "-", "."]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut tar = tar.spawn().map_err(failed)?;
    let archive = tar.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let import = Command::new(program).args(rest).stdin(archive).output().map_err(failed)?;
    let packed = tar.wait().map_err(failed)?;
    if packed.success() && import.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&import.stderr);
    Err(format!("cannot import {}: {}", folder.display(), said.lines().last().unwrap_or("tar failed")))
}

fn remove(path: &Path) -> std::io::Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Bytes of the disk that are taken below a path.
fn size(path: &Path) -> u64 {
    let Ok(found) = path.symlink_metadata() else { return 0 };
    let below = if found.is_dir() { fs::read_dir(path).ok() } else { None };
    found.blocks() * 512 + below.into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>()
}
