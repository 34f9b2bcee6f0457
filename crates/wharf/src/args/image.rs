//! `wharf image`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wharf_image::{Engine, Place, Source};

use crate::jobfile::Seconds;

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image from a Dockerfile
    Build(ImageBuildArgs),
    /// Make a base image from a distribution's packages, where there is no registry
    Base(ImageBaseArgs),
    /// Write a Dockerfile for the conda or pip environment that is active
    FromEnv(ImageFromEnvArgs),
    /// Have an image in another form: engine, folder, squashfs, SIF, tar
    Convert(ImageConvertArgs),
    /// Make an image of a container as it is now
    Commit(ImageCommitArgs),
    /// Log in at a registry; the password is read, never an argument
    Login(ImageLoginArgs),
    /// Send an image to its registry
    Push(ImageNameArgs),
    /// Fetch an image from its registry
    Pull(ImageNameArgs),
    /// List the images that were made here
    List(ImageListArgs),
    /// Remove images that were made here and are old
    Prune(ImagePruneArgs),
}

/// The program that keeps images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// podman
    Podman,
    /// docker
    Docker,
    /// Charliecloud's ch-image
    ChImage,
}

impl From<EngineArg> for Engine {
    fn from(engine: EngineArg) -> Self {
        match engine {
            EngineArg::Podman => Self::Podman,
            EngineArg::Docker => Self::Docker,
            EngineArg::ChImage => Self::ChImage,
        }
    }
}

/// `wharf image build`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image build . --tag train:1                          The Dockerfile here, with whatever engine there is
  wharf image build env --tag train --engine ch-image        With Charliecloud, without a daemon
  wharf image build env --tag train --base ./rootfs          `FROM ${BASE}` is a folder of files
  wharf image build . --tag train --to train.sqfs            And at once in another form")]
pub struct ImageBuildArgs {
    /// The folder whose files `COPY` sees
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub context: PathBuf,
    /// What the image is called
    #[arg(long, short, value_name = "NAME")]
    pub tag: String,
    /// The Dockerfile [default: `Dockerfile` in the folder]
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A value for an `ARG`; may be given several times
    #[arg(long = "build-arg", value_name = "NAME=VALUE", value_parser = pair)]
    pub args: Vec<(String, String)>,
    /// A folder or tar of files that becomes the build argument `BASE`
    #[arg(long, value_name = "PATH")]
    pub base: Option<PathBuf>,
    /// The network of `RUN`: `host`, `none`, or a name that the engine knows
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Also have it in this form
    #[arg(long, value_name = "IMAGE")]
    pub to: Option<Place>,
    /// With what [default: the first of podman, docker, ch-image]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
    /// Build it even if nothing has changed
    #[arg(long)]
    pub force: bool,
}

/// `wharf image base`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image base bookworm ./rootfs --include python3-minimal
  wharf image base bookworm podman:localhost/base:1 --mirror http://mirror/debian")]
pub struct ImageBaseArgs {
    /// The release of the distribution
    #[arg(value_name = "SUITE")]
    pub suite: String,
    /// Where it is to be
    #[arg(value_name = "IMAGE")]
    pub to: Place,
    /// Packages beyond the smallest system, separated by commas
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',')]
    pub include: Vec<String>,
    /// Where packages come from
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// Make it anew even if it is there
    #[arg(long)]
    pub force: bool,
}

/// `wharf image from-env`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image from-env image && wharf image build image --tag train
  wharf image from-env image --python ~/venvs/train/bin/python")]
pub struct ImageFromEnvArgs {
    /// The folder for the Dockerfile and the list of packages
    #[arg(value_name = "FOLDER", default_value = "image")]
    pub folder: PathBuf,
    /// A Python whose packages are meant [default: the active environment]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "conda")]
    pub python: Option<PathBuf>,
    /// The folder of a conda environment
    #[arg(long, value_name = "PREFIX")]
    pub conda: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long)]
    pub force: bool,
}

/// `wharf image convert`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image convert podman:localhost/train:1 ./train       A folder for ch-run
  wharf image convert ./train train.sqfs
  wharf image convert train:1 train.sif
  wharf image convert docker://python:3.12-slim python.sif   Pulled first
  wharf image convert files.tar.gz docker:train:1")]
pub struct ImageConvertArgs {
    /// Image: `podman:NAME`, `docker:NAME`, `ch-image:NAME`, `docker://NAME` (in a registry), `./folder`, `*.sqfs`, `*.sif` or
    /// `*.tar.gz`
    #[arg(value_name = "FROM")]
    pub from: Source,
    /// Result, written in the same way
    #[arg(value_name = "TO")]
    pub to: Place,
    /// Write over what is there
    #[arg(long)]
    pub force: bool,
}

/// `wharf image commit`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  wharf image commit crius-worker registry/lab/crius:2 && wharf image push registry/lab/crius:2\n  wharf image commit crius-worker crius:3 --author 'Ann <ann@example.org>' --message 'NCCL 2.21'"
)]
pub struct ImageCommitArgs {
    /// The container's name or id
    #[arg(value_name = "CONTAINER")]
    pub container: String,
    /// What the image is called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Author recorded in the image, such as `Ann <ann@example.org>`
    #[arg(long, short, value_name = "TEXT")]
    pub author: Option<String>,
    /// Message recorded in the image
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
    /// Engine of the container [default: the first of podman, docker]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
}

/// `wharf image login`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image login registry.example.org --user ann < password
  wharf image login registry.example.org --user ann --password-file ~/.registry")]
pub struct ImageLoginArgs {
    /// The registry
    #[arg(value_name = "REGISTRY")]
    pub registry: String,
    /// Who
    #[arg(long, short, value_name = "NAME")]
    pub user: String,
    /// A file with the password [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// With what [default: the first of podman, docker]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
}

/// `wharf image push`, `wharf image pull`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  wharf image pull docker.io/library/python:3.12-slim\n  wharf image push registry.example.org/lab/train:1"
)]
pub struct ImageNameArgs {
    /// The image's name, with its registry
    #[arg(value_name = "NAME")]
    pub name: String,
    /// With what [default: the first of podman, docker, ch-image]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
}

/// `wharf image list`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf image list\n  wharf image list --output json")]
pub struct ImageListArgs {}

/// `wharf image prune`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  wharf image prune --older-than 30d --dry-run\n  wharf image prune --older-than 30d"
)]
pub struct ImagePruneArgs {
    /// Those that were made longer ago
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub older_than: Seconds,
    /// Only tell which
    #[arg(long)]
    pub dry_run: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`; write NAME=VALUE"))?;
    if name.is_empty() {
        Err(format!("`{text}` has no name before `=`"))
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}
