//! `wharf image`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wharf_image::{Engine, Place, Source};
use wharf_job::Seconds;

use super::value::pair;

/// Subcommands of `wharf image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image from a Dockerfile
    Build(ImageBuildArgs),
    /// Create a base image from a distribution's packages, without a registry
    Base(ImageBaseArgs),
    /// Write a Dockerfile for the active conda or pip environment
    FromEnv(ImageFromEnvArgs),
    /// Convert an image: engine, directory, squashfs, SIF, tar
    Convert(ImageConvertArgs),
    /// Create an image from a container's current state
    Commit(ImageCommitArgs),
    /// Log in to a registry; reads the password from standard input or a file
    Login(ImageLoginArgs),
    /// Push an image to its registry
    Push(ImageNameArgs),
    /// Pull an image from its registry
    Pull(ImageNameArgs),
    /// List images created by `wharf image`
    List(ImageListArgs),
    /// Remove old images created by `wharf image`
    Prune(ImagePruneArgs),
}

/// Image engine.
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
  wharf image build . --tag train:1                          Build the Dockerfile here with the first engine found
  wharf image build env --tag train --engine ch-image        Build with Charliecloud, without a daemon
  wharf image build env --tag train --base ./rootfs          `FROM ${BASE}` is a folder of files
  wharf image build . --tag train --to train.sqfs            Build and convert")]
pub struct ImageBuildArgs {
    /// Build context: the directory that `COPY` reads
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub context: PathBuf,
    /// Image name
    #[arg(long, short, value_name = "NAME")]
    pub tag: String,
    /// Dockerfile [default: `Dockerfile` in the build context]
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Value of an `ARG`; may be given several times
    #[arg(long = "build-arg", value_name = "NAME=VALUE", value_parser = pair)]
    pub args: Vec<(String, String)>,
    /// Directory or tar file of the base image, passed as build argument `BASE`
    #[arg(long, value_name = "PATH")]
    pub base: Option<PathBuf>,
    /// Network of `RUN`: `host`, `none`, or a network of the engine
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Also convert the image to this target
    #[arg(long, value_name = "IMAGE")]
    pub to: Option<Place>,
    /// Image engine [default: the first of podman, docker, ch-image]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
    /// Build even if nothing has changed
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
    /// Release of the distribution
    #[arg(value_name = "SUITE")]
    pub suite: String,
    /// Output directory or file
    #[arg(value_name = "IMAGE")]
    pub to: Place,
    /// Additional packages, separated by commas
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',')]
    pub include: Vec<String>,
    /// Package mirror
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// Replace an existing image
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
    /// Output directory for the Dockerfile and the list of packages
    #[arg(value_name = "FOLDER", default_value = "image")]
    pub folder: PathBuf,
    /// Python interpreter of the environment [default: the active environment]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "conda")]
    pub python: Option<PathBuf>,
    /// Directory of a conda environment
    #[arg(long, value_name = "PREFIX")]
    pub conda: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// `wharf image convert`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf image convert podman:localhost/train:1 ./train       Convert to a directory for ch-run
  wharf image convert ./train train.sqfs
  wharf image convert train:1 train.sif
  wharf image convert docker://python:3.12-slim python.sif   Pull and convert
  wharf image convert files.tar.gz docker:train:1")]
pub struct ImageConvertArgs {
    /// Image: `podman:NAME`, `docker:NAME`, `ch-image:NAME`, `docker://NAME` (in a registry), `./folder`, `*.sqfs`, `*.sif` or
    /// `*.tar.gz`
    #[arg(value_name = "FROM")]
    pub from: Source,
    /// Target, in the same notation
    #[arg(value_name = "TO")]
    pub to: Place,
    /// Overwrite an existing target
    #[arg(long)]
    pub force: bool,
}

/// `wharf image commit`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  wharf image commit crius-worker registry/lab/crius:2 && wharf image push registry/lab/crius:2\n  wharf image commit crius-worker crius:3 --author 'Ann <ann@example.org>' --message 'NCCL 2.21'"
)]
pub struct ImageCommitArgs {
    /// Container name or id
    #[arg(value_name = "CONTAINER")]
    pub container: String,
    /// Image name
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
    /// Registry
    #[arg(value_name = "REGISTRY")]
    pub registry: String,
    /// User name
    #[arg(long, short, value_name = "NAME")]
    pub user: String,
    /// File with the password [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Image engine [default: the first of podman, docker]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
}

/// `wharf image push`, `wharf image pull`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  wharf image pull docker.io/library/python:3.12-slim\n  wharf image push registry.example.org/lab/train:1"
)]
pub struct ImageNameArgs {
    /// Image name with registry
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Image engine [default: the first of podman, docker, ch-image]
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
    /// Minimum age of the images to remove
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub older_than: Seconds,
    /// List the images without removing them
    #[arg(long)]
    pub dry_run: bool,
}
