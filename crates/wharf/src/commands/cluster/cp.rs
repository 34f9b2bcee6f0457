//! `wharf cp`: files into and out of what a job runs in, over a command in it.
//!
//! Where a task runs there need be no more than `sh` and `cat`, and `tar` for folders. A file appears whole or not at all.

use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wharf_client::Client;
use wharf_proto::{ExecInput, ExecOpen, exec_input, exec_output};

use super::connect::{refused, with};
use super::jobs::id_of;
use crate::args::{CpArgs, CpPlace};
use crate::error::CliError;
use crate::exit::Exit;

const CHUNK_BYTES: usize = 64 * 1024;
/// Pieces of input that wait for the network.
const INPUT_PIECES: usize = 4;
/// What is kept of what the other end complains about.
const COMPLAINT_BYTES: usize = 4096;

/// Takes a file: into a folder under its own name, else under the name that is given.
const TAKE_FILE: &str = r#"to=$1; if [ -d "$to" ]; then to="${to%/}/$2"; fi; part="$to.wharf-$$"
cat > "$part" && chmod "$3" "$part" && mv -f "$part" "$to" || { rm -f "$part"; exit 1; }"#;
/// Takes a folder, likewise.
const TAKE_FOLDER: &str =
    r#"to=$1; if [ -d "$to" ]; then to="${to%/}/$2"; fi; mkdir -p "$to" && exec tar -C "$to" -xf -"#;
/// Gives a file or a folder, and says first which of both.
const GIVE: &str = r#"if [ -d "$1" ]; then printf d; exec tar -C "$1" -cf - .; fi
[ -e "$1" ] || { echo "$1: no such file" >&2; exit 1; }
printf f; exec cat "$1""#;

/// Copies a file or a folder.
pub(in crate::commands) fn cp(args: &CpArgs) -> Result<Exit, CliError> {
    match (&args.from, &args.to) {
        (CpPlace::Here(from), CpPlace::Task { job, rank, path }) => {
            // Said before a head is searched for.
            from.metadata().map_err(|error| CliError::read(from, error))?;
            with(&args.home, async |client| {
                let job_id = id_of(client, *job).await?;
                send(client, from, job_id, *rank, path).await
            })?;
        }
        (CpPlace::Task { job, rank, path }, CpPlace::Here(to)) => with(&args.home, async |client| {
            let job_id = id_of(client, *job).await?;
            fetch(client, job_id, *rank, path, to).await
        })?,
        _ => {
            return Err(CliError::usage("exactly one of source and destination must be in a job")
                .hint("use JOB:PATH for paths in a job: wharf cp config.json 3:/app/"));
        }
    }
    Ok(Exit::Ok)
}

async fn send(client: &Client, from: &Path, job_id: u32, rank: u32, to: &str) -> Result<(), CliError> {
    let found = from.metadata().map_err(|error| CliError::read(from, error))?;
    let whole = std::path::absolute(from).map_err(|error| CliError::read(from, error))?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mode = format!("{:o}", found.permissions().mode() & 0o777);
    let (script, mut words) = if found.is_dir() {
        (TAKE_FOLDER, vec![to.to_owned(), name])
    } else {
        (TAKE_FILE, vec![to.to_owned(), name, mode])
    };
    let mut packer = None;
    let source: Box<dyn Read + Send> = if found.is_dir() {
        let mut tar = pack(from)?;
        let output = tar.stdout.take().ok_or_else(|| CliError::input("tar has no output"))?;
        packer = Some(tar);
        Box::new(output)
    } else {
        Box::new(std::fs::File::open(from).map_err(|error| CliError::read(from, error))?)
    };
    let open = ExecOpen { job_id, rank, command: shell(script, &mut words), ..ExecOpen::default() };
    transfer(client, open, source, |_| Ok(())).await?;
    match packer.map(|mut tar| tar.wait()) {
        Some(Ok(status)) if !status.success() => Err(CliError::input(format!("tar ended with {status}"))),
        Some(Err(error)) => Err(CliError::input("cannot wait for tar").caused_by(error)),
        _ => Ok(()),
    }
}

async fn fetch(client: &Client, job_id: u32, rank: u32, from: &str, to: &Path) -> Result<(), CliError> {
    let name = Path::new(from).file_name().unwrap_or_default();
    let to = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let open =
        ExecOpen { job_id, rank, command: shell(GIVE, &mut vec![from.to_owned()]), ..ExecOpen::default() };
    let mut arrival = Arrival::Unknown;
    let done = transfer(client, open, Box::new(io::empty()), |data| arrival.take(data, &to)).await;
    let landed = arrival.land(&to, done.is_ok());
    done.and(landed)
}

/// A shell with its script's words.
fn shell(script: &str, words: &mut Vec<String>) -> Vec<String> {
    let mut command = ["sh", "-c", script, "wharf-cp"].map(String::from).to_vec();
    command.append(words);
    command
}

fn pack(folder: &Path) -> Result<Child, CliError> {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder).args(["-cf", "-", "."]).stdin(Stdio::null()).stdout(Stdio::piped());
    tar.spawn().map_err(|error| CliError::input("cannot start `tar`, which packs folders").caused_by(error))
}

/// What comes from a task: a file, or an archive of a folder.
enum Arrival {
    Unknown,
    File(tempfile::NamedTempFile),
    Folder(Child),
}

impl Arrival {
    fn take(&mut self, data: &[u8], to: &Path) -> Result<(), CliError> {
        let failed =
            |error: io::Error| CliError::input(format!("cannot write {}", to.display())).caused_by(error);
        let mut rest = data;
        if matches!(self, Self::Unknown) {
            let Some((kind, after)) = data.split_first() else { return Ok(()) };
            rest = after;
            let parent =
                to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            *self = if *kind == b'd' {
                Self::Folder(unpack(to).map_err(failed)?)
            } else {
                Self::File(tempfile::NamedTempFile::new_in(parent).map_err(failed)?)
            };
        }
        match self {
            Self::Unknown => Ok(()),
            Self::File(file) => file.write_all(rest).map_err(failed),
            Self::Folder(tar) => {
                let Some(input) = &mut tar.stdin else { return Ok(()) };
                input.write_all(rest).map_err(failed)
            }
        }
    }

    /// Puts what came into its place, if it came whole.
    fn land(self, to: &Path, is_whole: bool) -> Result<(), CliError> {
        let failed =
            |error: io::Error| CliError::input(format!("cannot write {}", to.display())).caused_by(error);
        match self {
            Self::File(file) if is_whole => {
                let mode = std::fs::Permissions::from_mode(0o644);
                file.as_file().set_permissions(mode).map_err(failed)?;
                file.persist(to).map(drop).map_err(|error| failed(error.error))
            }
            Self::Folder(mut tar) => {
                drop(tar.stdin.take());
                let status = tar.wait().map_err(failed)?;
                if status.success() || !is_whole {
                    return Ok(());
                }
                Err(CliError::input(format!("tar ended with {status}")))
            }
            Self::File(_) | Self::Unknown => Ok(()),
        }
    }
}

fn unpack(to: &Path) -> io::Result<Child> {
    std::fs::create_dir_all(to)?;
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(PathBuf::from(to)).args(["--no-same-owner", "-xf", "-"]).stdin(Stdio::piped());
    tar.stdout(Stdio::null()).spawn()
}

/// Runs a command in a task with this input, and hands its output on.
async fn transfer(
    client: &Client,
    open: ExecOpen,
    source: Box<dyn Read + Send>,
    mut sink: impl FnMut(&[u8]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let (inputs, stream) = mpsc::channel(INPUT_PIECES);
    let message = |message| ExecInput { message: Some(message) };
    // The channel is new: there is room.
    let _ = inputs.send(message(exec_input::Message::Open(open))).await;
    let mut output = client.exec(ReceiverStream::new(stream)).await?;
    let reading = std::thread::spawn(move || feed(source, &inputs));
    let mut complaint = Vec::new();
    while let Some(said) = output.message().await.map_err(refused)? {
        match said.message {
            Some(exec_output::Message::Stdout(data)) => sink(&data)?,
            Some(exec_output::Message::Stderr(data)) => {
                complaint.extend_from_slice(&data);
                complaint.truncate(COMPLAINT_BYTES);
            }
            Some(exec_output::Message::ExitCode(0)) => {
                return match reading.join() {
                    Ok(Err(error)) => Err(CliError::input("cannot read the complete file").caused_by(error)),
                    _ => Ok(()),
                };
            }
            Some(exec_output::Message::ExitCode(code)) => {
                let said = String::from_utf8_lossy(&complaint).trim().to_owned();
                let why =
                    if said.is_empty() { format!("the other end stopped with code {code}") } else { said };
                return Err(CliError::input(format!("nothing was copied: {why}")));
            }
            Some(exec_output::Message::Error(error)) => return Err(CliError::input(error)),
            Some(exec_output::Message::InputTaken(_)) | None => {}
        }
    }
    Err(CliError::input("the connection was lost; the copy may be incomplete"))
}

/// Reads on a thread of its own: files and pipes know no waiting.
fn feed(mut source: Box<dyn Read + Send>, inputs: &mpsc::Sender<ExecInput>) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let next = match source.read(&mut chunk) {
            Ok(0) => exec_input::Message::End(true),
            Ok(count) => exec_input::Message::Data(chunk[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // What was read so far must not be taken for the whole.
            Err(error) => return Err(error),
        };
        let is_last = matches!(next, exec_input::Message::End(_));
        if inputs.blocking_send(ExecInput { message: Some(next) }).is_err() || is_last {
            return Ok(());
        }
    }
}
