//! From one form into another, through a plain folder of the image's files.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::hash::{tree, whole_file};
use crate::index::{Index, remove};
use crate::place::{Engine, Form, Place};
use crate::tool::Tool;
use crate::{Done, ImageError};

/// Where Charliecloud searches for an image's variables.
const VARIABLES: &str = "ch/environment";

/// Makes an image in another form, unless it is there and was made from the same.
///
/// # Errors
/// A tool is missing or fails, or something else is in the way; nothing half-made is left.
pub fn convert(index: &mut Index, from: &Place, to: &Place, is_forced: bool) -> Result<Done, ImageError> {
    let known = digest(from)?;
    if let Some(source) = &known
        && !is_forced
        && index.is_current(to, source)?
    {
        return Ok(Done::UpToDate);
    }
    if let Place::At(_, path) = to
        && path.exists()
        && !is_forced
        && !index.knows(to)
    {
        return Err(ImageError::InTheWay(path.clone()));
    }
    let aside = aside(to)?;
    let files = match from {
        Place::At(Form::Folder, path) => path.clone(),
        _ => unpack(from, aside.path())?,
    };
    let source = match known {
        Some(source) => source,
        None => tree(&files)?,
    };
    if index.is_current(to, &source)? && !is_forced {
        return Ok(Done::UpToDate);
    }
    pack(&files, to, aside.path())?;
    index.note(to, &source)?;
    Ok(Done::Made)
}

/// A folder on the same file system as the result, so that it can be moved into place; gone in any case.
fn aside(to: &Place) -> Result<TempDir, ImageError> {
    let made = match to {
        Place::At(_, path) => {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(folder).map_err(ImageError::file("cannot make the folder", folder))?;
            tempfile::Builder::new().prefix(".wharf-image-").tempdir_in(folder)
        }
        Place::Named(..) => tempfile::Builder::new().prefix("wharf-image-").tempdir(),
    };
    made.map_err(ImageError::file("cannot make a temporary folder near", Path::new(&to.to_string())))
}

/// What an image is, where that can be told without unpacking it.
fn digest(place: &Place) -> Result<Option<String>, ImageError> {
    Ok(Some(match place {
        Place::At(Form::Folder, path) => tree(path)?,
        Place::At(_, path) => whole_file(path)?,
        Place::Named(Engine::ChImage, _) => return Ok(None),
        Place::Named(engine, name) => {
            let tool = Tool::new(engine.program()).args(["image", "inspect", "--format", "{{.Id}}", name]);
            tool.output()?.trim().to_owned()
        }
    }))
}

/// The image's files in a new folder below `aside`.
fn unpack(place: &Place, aside: &Path) -> Result<PathBuf, ImageError> {
    let files = aside.join("files");
    match place {
        Place::At(Form::Folder, path) => return Ok(path.clone()),
        Place::At(Form::Squash, path) => {
            Tool::new("unsquashfs")
                .args(["-quiet", "-no-progress", "-dest"])
                .arg(&files)
                .arg(path)
                .output()?;
        }
        Place::At(Form::Sif, path) => unpack_sif(path, &files)?,
        Place::At(Form::Tar, path) => untar(path, &files)?,
        Place::Named(Engine::ChImage, name) => {
            Tool::new("ch-convert").args(["-i", "ch-image", "-o", "dir", name]).arg(&files).output()?;
        }
        Place::Named(engine, name) => export(*engine, name, aside, &files)?,
    }
    Ok(files)
}

/// What it holds is a squashfs, unless it is encrypted: then apptainer itself has to be asked for it.
fn unpack_sif(path: &Path, files: &Path) -> Result<(), ImageError> {
    let parts = Tool::new("apptainer").args(["sif", "list"]).arg(path).output()?;
    match squashfs_offset(&parts) {
        Some(offset) => {
            let tool = Tool::new("unsquashfs").args(["-quiet", "-no-progress", "-offset", offset, "-dest"]);
            tool.arg(files).arg(path).output()?;
        }
        None => {
            Tool::new("apptainer").args(["build", "--sandbox"]).arg(files).arg(path).output()?;
        }
    }
    Ok(())
}

/// Where the system's squashfs begins, as in `3 |1 |NONE |36864-1081344 |FS (Squashfs/*System/amd64)`.
fn squashfs_offset(parts: &str) -> Option<&str> {
    let line = parts.lines().find(|line| line.contains("FS (Squashfs/*System"))?;
    let offset = line.split('|').nth(3)?.trim().split_once('-')?.0;
    offset.bytes().all(|byte| byte.is_ascii_digit()).then_some(offset)
}

fn untar(path: &Path, files: &Path) -> Result<(), ImageError> {
    fs::create_dir(files).map_err(ImageError::file("cannot make the folder", files))?;
    // Devices cannot be made without rights, and no image needs its own.
    Tool::new("tar")
        .args(["--exclude=./dev/*", "--exclude=dev/*", "-xf"])
        .arg(path)
        .arg("-C")
        .arg(files)
        .output()?;
    // With a `bin` it is an image's files, whatever else is there.
    if files.join("manifest.json").is_file() && !files.join("bin").exists() {
        return Err(ImageError::Layers(path.to_owned()));
    }
    Ok(())
}

/// What a container of the image would see, and its variables where Charliecloud searches for them.
fn export(engine: Engine, name: &str, aside: &Path, files: &Path) -> Result<(), ImageError> {
    let program = engine.program();
    // An image without a command cannot become a container without one; it is never started.
    let container = Tool::new(program).args(["create", name, "/bin/true"]).output()?;
    let container = container.trim().to_owned();
    let tar = aside.join("files.tar");
    let exported = Tool::new(program).args(["export", "--output"]).arg(&tar).arg(&container).output();
    let removed = Tool::new(program).args(["rm", &container]).cleaning().output();
    exported?;
    removed?;
    untar(&tar, files)?;
    fs::remove_file(&tar).map_err(ImageError::file("cannot remove", &tar))?;
    let format = "{{range .Config.Env}}{{println .}}{{end}}";
    let variables = Tool::new(program).args(["image", "inspect", "--format", format, name]).output()?;
    let lines: Vec<&str> = variables.lines().filter(|line| line.contains('=')).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let path = files.join(VARIABLES);
    let folder = files.join("ch");
    fs::create_dir_all(&folder).map_err(ImageError::file("cannot make the folder", &folder))?;
    fs::write(&path, lines.join("\n") + "\n").map_err(ImageError::file("cannot write", &path))
}

/// Makes the image of the files: aside first, then moved into place.
fn pack(files: &Path, to: &Place, aside: &Path) -> Result<(), ImageError> {
    match to {
        Place::Named(Engine::ChImage, name) => {
            Tool::new("ch-convert").args(["-i", "dir", "-o", "ch-image"]).arg(files).arg(name).output()?;
            Ok(())
        }
        Place::Named(engine, name) => import(*engine, files, name, aside, &[]),
        Place::At(form, path) => {
            let made = aside.join("made");
            match form {
                Form::Folder => {
                    Tool::new("cp").arg("--archive").arg(files).arg(&made).output()?;
                }
                Form::Squash => {
                    Tool::new("mksquashfs")
                        .arg(files)
                        .arg(&made)
                        .args(["-noappend", "-quiet", "-no-progress"])
                        .output()?;
                }
                Form::Tar => {
                    let packing =
                        if path.extension().is_some_and(|ending| ending == "tar") { "-cf" } else { "-czf" };
                    Tool::new("tar").arg(packing).arg(&made).arg("-C").arg(files).arg(".").output()?;
                }
                Form::Sif => {
                    let made = aside.join("made.sif");
                    let definition = aside.join("made.def");
                    let text = definition_of(files)?;
                    fs::write(&definition, text).map_err(ImageError::file("cannot write", &definition))?;
                    Tool::new("apptainer").arg("build").arg(&made).arg(&definition).output()?;
                    return place(&made, to, path);
                }
            }
            place(&made, to, path)
        }
    }
}

/// What apptainer is to make of the files, with the variables that they tell of: it would not search for those itself.
fn definition_of(files: &Path) -> Result<String, ImageError> {
    let files = std::path::absolute(files).map_err(ImageError::file("cannot find", files))?;
    let mut text = format!("Bootstrap: localimage\nFrom: {}\n", files.display());
    let variables = variables(&files);
    if !variables.is_empty() {
        text += "\n%environment\n";
    }
    for (name, value) in variables {
        text += &format!("    export {name}='{}'\n", value.replace('\'', r#"'"'"'"#));
    }
    Ok(text)
}

/// The variables that an image's files tell of, where Charliecloud searches for them.
fn variables(files: &Path) -> Vec<(String, String)> {
    let is_name = |name: &str| {
        !name.starts_with(|first: char| first.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let unquoted = |value: &str| {
        let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        inner.unwrap_or(value).to_owned()
    };
    // Most images have none.
    let text = fs::read_to_string(files.join(VARIABLES)).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| is_name(name));
    pairs.map(|(name, value)| (name.to_owned(), unquoted(value))).collect()
}

fn place(made: &Path, to: &Place, path: &Path) -> Result<(), ImageError> {
    if path.exists() {
        remove(to)?;
    }
    fs::rename(made, path).map_err(ImageError::file("cannot write", path))
}

/// Podman takes the value as it is; docker reads it as a Dockerfile's.
fn env_change(engine: Engine, name: &str, value: &str) -> String {
    if engine == Engine::Podman {
        return format!("ENV {name}={value}");
    }
    let quoted = value.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$");
    format!("ENV {name}=\"{quoted}\"")
}

/// Takes a folder of files into an engine, with the variables that it tells of.
pub(crate) fn import(
    engine: Engine,
    files: &Path,
    name: &str,
    aside: &Path,
    labels: &[(&str, &str)],
) -> Result<(), ImageError> {
    let tar = aside.join("import.tar");
    Tool::new("tar").arg("-cf").arg(&tar).arg("-C").arg(files).arg(".").output()?;
    let mut tool = Tool::new(engine.program()).arg("import");
    for (name, value) in variables(files) {
        tool = tool.arg("--change").arg(env_change(engine, &name, &value));
    }
    for (label, value) in labels {
        tool = tool.arg("--change").arg(format!("LABEL {label}={value}"));
    }
    tool.arg(&tar).arg(name).output()?;
    fs::remove_file(&tar).map_err(ImageError::file("cannot remove", &tar))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squashfs_is_found_in_a_sif() {
        let parts = "ID   |GROUP   |LINK    |SIF POSITION (start-end)  |TYPE\n\
                     1    |1       |NONE    |32176-32314               |Def.FILE\n\
                     3    |1       |NONE    |36864-1081344             |FS (Squashfs/*System/amd64)\n";
        assert_eq!(squashfs_offset(parts), Some("36864"));
        let encrypted = parts.replace("FS (Squashfs", "FS (Encrypted squashfs");
        assert_eq!(squashfs_offset(&encrypted), None);
    }

    #[test]
    fn variables_are_quoted_for_engines() {
        let value = r#"it's "a" for $5 \ x"#;
        for (engine, expected) in [
            (Engine::Podman, r#"ENV K=it's "a" for $5 \ x"#),
            (Engine::Docker, r#"ENV K="it's \"a\" for \$5 \\ x""#),
        ] {
            assert_eq!(env_change(engine, "K", value), expected);
        }
    }

    #[test]
    fn variables_are_quoted_for_apptainer() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ch")).unwrap();
        fs::write(folder.path().join(VARIABLES), "A=it's\nB='x y'\n1=2\nno line\n").unwrap();
        let text = definition_of(folder.path()).unwrap();
        let expected = format!(
            "Bootstrap: localimage\nFrom: {}\n\n%environment\n    export A='it'\"'\"'s'\n    export B='x y'\n",
            folder.path().display()
        );
        assert_eq!(text, expected);
    }
}
