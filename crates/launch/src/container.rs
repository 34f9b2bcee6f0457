//! A node's container: how it is made, checked, entered and removed.
//!
//! It is known by a label with the node's stamp, never by its name alone. The node's folder is in it at the same path, so that both
//! sides mean the same by `D`: `D/engine` says who made the container, `D/container` which it is. Files that are copied to the node lie
//! in `D/mounts` and are mounted where they belong.

use crate::config::{Container, Mount, NodeConfig, Runtime};
use crate::hash::Hasher;
use crate::launcher::Launcher;
use crate::provider::{INTERACTIVE, SETTINGS, Shell};
use crate::script::{END, LOOK, in_container};
use crate::shell::{quote, quote_path};
use crate::visit::{NodeError, Visit, around};

/// The first process of a container: it waits, collects what others have left behind, and ends when it is requested to.
const FIRST: &str = "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done";

/// Inspects the container and its contents.
const SEE: &str = r#"
if [ -s "$D/container" ]; then
  read -r engine < "$D/engine"
  read -r id < "$D/container"
  state=$("$engine" container inspect -f '{{.State.Running}} {{.Image}}' "$id" 2> /dev/null) || state=gone
  case $state in
    "true "*)
      image=$("$engine" image inspect -f '{{.Id}}' "$IMAGE" 2> /dev/null) || image=${state#* }
      if [ "$image" = "${state#* }" ]; then echo "container current"; else echo "container outdated"; fi
      "$engine" exec -i "$id" sh -c "$INSIDE" sh "$D" < /dev/null
      ;;
    "false "*) echo "container stopped" ;;
  esac
fi
"#;

/// Enters it.
const ENTER: &str = r#"D="$HOME/.wharf/$NAME"
{ read -r engine < "$D/engine" && read -r id < "$D/container"; } 2> /dev/null ||
  { echo 'its container is not there; `wharf up` makes it' >&2; exit 1; }
"#;

/// What reads a script in it: the shell that users are used to, where the image has it.
const PLAIN: &str = r#"exec sh -c "$1" sh "$2""#;
const LOGIN: &str = r#"command -v bash > /dev/null && exec bash -c "$INTERACTIVE" bash "$SETTINGS
$1" "$2"; exec sh -l -c "$1" sh "$2""#;

/// Removes what has the stamp's label; what runs in it is asked to end before. `LAST` is done in it.
const DROP: &str = r#"
drop() {
  [ -s "$D/engine" ] || return 0
  read -r engine < "$D/engine"
  ids=$("$engine" ps -aq --filter "label=wharf.stamp=$STAMP") || return 1
  for id in $ids; do
    "$engine" exec "$id" sh -c "$LAST" sh "$D" > /dev/null 2>&1
    "$engine" rm -f "$id" > /dev/null || return 1
  done
  rm -f "$D/container" "$D/engine"
}
"#;

/// Files that the container's user has made, and that other users may be unable to remove.
const SWEEP: &str = r#"
for path in "$D"/*; do
  case ${path##*/} in stamp|engine|container) ;; *) rm -rf "$path" ;; esac
done
"#;

/// The container of a node whose files were lost: whose engine's it was is not known any more.
const ABANDON: &str = r#"
for engine in docker podman; do
  command -v $engine > /dev/null || continue
  for id in $($engine ps -aq --filter "label=wharf.stamp=$OLD" 2> /dev/null); do $engine rm -f "$id" > /dev/null; done
done
"#;

/// Chooses who makes it, gets the image, and states what of the machine goes into it.
const PREPARE: &str = r#"
drop || exit 1
# What ran on the machine itself before there was a container.
end "WHARF_LAUNCHED=$STAMP" || exit 1
if [ "$PODMAN" = no ] && command -v docker > /dev/null; then engine=docker
elif command -v podman > /dev/null; then engine=podman
elif [ "$PODMAN" = no ]; then echo 'there is neither docker nor podman: install one of them, as in `initialization_commands`' >&2; exit 1
else echo 'there is no podman: install it, as in `initialization_commands`' >&2; exit 1
fi
echo "$engine" > "$D/engine"
if [ "$PULL" = yes ] || ! "$engine" image inspect "$IMAGE" > /dev/null 2>&1; then
  "$engine" pull "$IMAGE" || {
    [ "$PULL" = no ] || echo '(`pull_before_run: false` takes an image that is on the machine already)' >&2
    exit 1
  }
fi
shm=
[ "$SHM" = no ] ||
  shm=$(awk '/^MemAvailable:/ { x = $2 * 1024 * 0.3 * 1.1; if (x > 2e11) x = 2e11; printf "--shm-size=%.0fb", x }' /proc/meminfo)
gpu=
if [ "$GPU" = yes ] && [ "$engine" = docker ] && docker info -f '{{.Runtimes}}' | grep -q nvidia-container-runtime &&
  nvidia-smi > /dev/null 2>&1; then gpu=--runtime=nvidia; fi
"#;

/// Notes which it is, and sees whether daemons can live in it.
const NOTE: &str = r#"
id=$(tail -n 1 "$D/container.new")
if [ "$OWN" = yes ] && ! "$engine" exec "$id" sh -c 'test -w "$1"' sh "$D"; then
  echo "the container's user may not write $D: set \`run_options: [--user=$(id -u):$(id -g)]\`" >&2
  exit 1
fi
echo "$id" > "$D/container"
rm -f "$D/container.new"
"#;

/// Lets it continue after it has stopped.
const REVIVE: &str = "read -r engine < \"$D/engine\" && read -r id < \"$D/container\" && \"$engine\" start \"$id\" > /dev/null";

/// What a container is made with: equal hashes, equal containers.
pub(crate) fn hash(container: &Container, mounts: &[Mount]) -> String {
    let mut hasher = Hasher::new();
    hasher.add(&container.image).add(&container.name);
    let flags = [container.finds_runtime, container.sizes_shm, container.is_podman];
    hasher.add(flags.map(u8::from));
    for option in &container.options {
        hasher.add("option").add(option);
    }
    for mount in mounts {
        hasher.add("mount").add(&mount.remote).add([u8::from(mount.local.is_dir())]);
    }
    hasher.finish()
}

/// What it is called on its machine. Nodes that share a machine have containers of different names.
fn name(launcher: &Launcher, node: &NodeConfig, container: &Container) -> String {
    if launcher.channel(node).is_here() {
        format!("{}-{}-{}", container.name, launcher.cluster.name, node.name)
    } else {
        container.name.clone()
    }
}

/// Where a copied file or folder lies on the machine, below one of the node's folders.
fn staged(folder: &str, remote: &str) -> String {
    match remote.strip_prefix('~') {
        Some(rest) => format!("{folder}/home{rest}"),
        None => format!("{folder}/root{remote}"),
    }
}

/// Where the launcher copies something that is mounted: folders into the mounted one; files beside it, because copying replaces
/// a file, and the one that is mounted would stay as it was.
pub(crate) fn copied_to(cluster: &str, mount: &Mount) -> String {
    let folder = if mount.local.is_dir() { "mounts" } else { "sent" };
    format!("~/.wharf/{cluster}/{}", staged(folder, &mount.remote))
}

/// Puts a file that was sent where it is mounted, without replacing it.
pub(crate) fn put(mount: &Mount) -> String {
    let (sent, mounted) = (staged("sent", &mount.remote), staged("mounts", &mount.remote));
    let folder = mounted.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("mkdir -p \"$D\"/{} && cp -p \"$D\"/{} \"$D\"/{}", quote(folder), quote(&sent), quote(&mounted))
}

/// Where something is put on its way into the container, and into which folder there it goes then.
pub(crate) fn passing(cluster: &str, mount: &Mount) -> (String, String) {
    let folder = format!("~/.wharf/{cluster}/passing");
    if mount.local.is_dir() {
        return (folder, mount.remote.clone());
    }
    (format!("{folder}/{}", base(&mount.remote)), around(&mount.remote).to_owned())
}

/// Where something is on its way out of it.
pub(crate) fn passed(cluster: &str, path: &str) -> String {
    format!("~/.wharf/{cluster}/passing/{}", base(path))
}

fn base(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// Moves what is on its way in into a folder there. By an archive in a file, so that neither side's failure is lost.
pub(crate) fn copy_in(target: &str) -> String {
    let inside = format!("mkdir -p {0} && tar -C {0} -xof -", quote_path(target));
    format!(
        "{ENTER}tar -C \"$D/passing\" -cf \"$D/passing.tar\" . || exit 1\n\
         \"$engine\" exec -i \"$id\" sh -c {} < \"$D/passing.tar\" || exit 1\n\
         rm -rf \"$D/passing\" \"$D/passing.tar\"",
        quote(&inside)
    )
}

/// Gets something on its way out.
pub(crate) fn copy_out(path: &str) -> String {
    let inside = format!("cd {} && tar -cf - -- {}", quote_path(around(path)), quote(base(path)));
    format!(
        "{ENTER}rm -rf \"$D/passing\" && mkdir \"$D/passing\" || exit 1\n\
         \"$engine\" exec \"$id\" sh -c {} > \"$D/passing.tar\" && tar -C \"$D/passing\" -xf \"$D/passing.tar\"",
        quote(&inside)
    )
}

/// Enters a node's container with a script, and with variables that are exported there.
pub(crate) fn enter(
    cluster: &str,
    shell: Shell,
    env: &[(&str, &str)],
    script: &str,
    terminal: &str,
) -> String {
    let env: String =
        env.iter().map(|(name, value)| format!(" -e {}", quote(&format!("{name}={value}")))).collect();
    let reader = match shell {
        Shell::Plain => PLAIN.to_owned(),
        Shell::Login => {
            format!("SETTINGS={}\nINTERACTIVE={}\n{LOGIN}", quote(SETTINGS), quote(INTERACTIVE))
        }
    };
    format!(
        "NAME={}\n{ENTER}exec \"$engine\" exec {terminal}{env} \"$id\" sh -c {} sh {} \"$D\"",
        quote(cluster),
        quote(&reader),
        quote(script)
    )
}

/// Whether a line is about the machine's containers: it is run beside the node's container, as with Ray.
pub(crate) fn is_for_machine(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| word == "docker" || word == "podman")
}

/// The script that checks a node's container, and what else it needs.
pub(crate) fn see(cluster: &str, container: &Container, variables: &[(&str, &str)]) -> String {
    let inside = in_container(cluster, variables, LOOK);
    // The stamp is known on the machine only.
    format!("IMAGE={}\nINSIDE=\"STAMP=$STAMP\n\"{}\n{SEE}", quote(&container.image), quote(&inside))
}

/// The script that removes a node's container, with what was put into its folder where it is not used any more.
pub(crate) fn removal(cluster: &str, stamp: &str, sweeps: bool) -> String {
    // A container may see the machine's processes, including the one that removes it: that is a step, too.
    let last = if sweeps { format!("{END}{SWEEP}") } else { "end \"WHARF_LAUNCHED=$STAMP\"".to_owned() };
    let last = in_container(cluster, &[("STAMP", stamp)], &last);
    format!("STAMP={}\nLAST={}\n{DROP}", quote(stamp), quote(&last))
}

/// Makes the container of a node again.
pub(crate) async fn make(
    visit: &Visit<'_>,
    container: &Container,
    stamp: &str,
    mounts: &[Mount],
) -> Result<(), NodeError> {
    let launcher = visit.launcher;
    let yes = |is: bool| if is { "yes" } else { "no" };
    let has_size = container.has_option("--shm-size") || container.has_option("--ipc");
    let name = name(launcher, visit.node, container);
    visit.log.title(&format!("container: {name} of {}", container.image))?;
    let env = [
        ("IMAGE", container.image.as_str()),
        ("CONTAINER", &name),
        ("PODMAN", yes(container.is_podman)),
        ("PULL", yes(container.pulls)),
        ("SHM", yes(container.sizes_shm && !has_size)),
        ("GPU", yes(container.finds_runtime && !container.has_option("--runtime"))),
        ("OWN", yes(matches!(launcher.cluster.runtime, Runtime::Wharf(_)))),
    ];
    let script = format!(
        "{}{PREPARE}{}{NOTE}",
        removal(&launcher.place(visit.node), stamp, false),
        run(container, mounts)
    );
    visit.step("making its container", stamp, &script, &env).await
}

/// The engine's `run`.
fn run(container: &Container, mounts: &[Mount]) -> String {
    let options = container.options.join(" ");
    let home = if mounts.iter().any(|mount| mount.remote.starts_with('~')) {
        format!(
            "home=$(\"$engine\" run --rm {options} --entrypoint sh \"$IMAGE\" -c 'printf %s \"$HOME\"') || exit 1\n"
        )
    } else {
        String::new()
    };
    let volumes: String = mounts.iter().map(volume).collect();
    let net = if container.has_option("--net") { "" } else { " --net=host" };
    let first = if container.has_option("--entrypoint") {
        format!("\"$IMAGE\" sh -c {}", quote(FIRST))
    } else {
        format!("--entrypoint sh \"$IMAGE\" -c {}", quote(FIRST))
    };
    format!(
        "{home}\"$engine\" run -d --name \"$CONTAINER\" --label wharf.cluster=\"$NAME\" --label wharf.stamp=\"$STAMP\" \
         -v \"$D:$D\"{volumes} -e LC_ALL=C.UTF-8 -e LANG=C.UTF-8 {options} $shm $gpu{net} {first} > \"$D/container.new\" || exit 1\n"
    )
}

fn volume(mount: &Mount) -> String {
    let target = match mount.remote.strip_prefix('~') {
        Some(rest) => format!("\"$home\"{}", quote(rest)),
        None => quote_path(&mount.remote),
    };
    format!(" -v \"$D\"/{}:{target}", quote(&staged("mounts", &mount.remote)))
}

/// Starts the container of a node again.
pub(crate) async fn revive(visit: &Visit<'_>, stamp: &str) -> Result<(), NodeError> {
    visit.log.title("container: started again")?;
    visit.step("starting its container again", stamp, REVIVE, &[]).await
}

/// Removes the container of a node that is to have none any more.
pub(crate) async fn remove(visit: &Visit<'_>, stamp: &str) -> Result<(), NodeError> {
    visit.log.title("container: removed")?;
    let script = format!("{}\ndrop", removal(&visit.launcher.place(visit.node), stamp, false));
    visit.step("removing its container", stamp, &script, &[]).await
}

/// Removes the container that a node had before its files were lost.
pub(crate) async fn abandon(visit: &Visit<'_>, stamp: &str) -> Result<(), NodeError> {
    visit.ask("removing its old container", ABANDON, &[("OLD", stamp)], None).await.map(|_| ())
}
