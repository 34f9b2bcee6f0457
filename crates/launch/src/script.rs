//! Scripts that run on nodes. They need a POSIX shell and what every Linux has, and nothing of Wharf's.
//!
//! What is different each time comes in variables: `NAME` (the cluster), `D` (the folder where everything of ours is), `STAMP` (the
//! node's), and what the script says. None of them is exported: what is started must not inherit them.

use crate::shell::quote;

/// How processes are known: by pid and the tick they started at, or by a word in their environment. Never by name: others have
/// processes of the same names. One that is dead and not yet collected does not count. `end` takes a signal for lines of users: a shell that
/// is interactive ignores TERM, and would continue with the line's next command. A process that has ended meanwhile is no failure.
const COMMON: &str = r#"
ticks() { sed -n 's/.*) [^ZX] /- /p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
alive() { [ -f "$D/$1.pid" ] && read -r pid since < "$D/$1.pid" && [ -n "$since" ] && [ "$(ticks "$pid")" = "$since" ]; }
marked() { grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3; }
end() {
  n=0
  while p=$(marked "$1"); [ -n "$p" ]; do
    if [ $n -ge 100 ]; then kill -9 $p 2>/dev/null || :
    elif [ $((n % 10)) -eq 0 ]; then for s in $2 TERM; do kill -s $s $p 2>/dev/null || :; done
    fi
    n=$((n + 1))
    [ $n -lt 200 ] || { echo "processes do not end:" $p >&2; return 1; }
    sleep 0.1
  done
}
"#;

/// States what is there. Sockets are below `workers/NODE`, and names of sockets are at most 107 long. What runs is searched for by `LOOK`, where it runs.
pub(crate) const REACH: &str = r#"
set -e
if [ $((${#D} + ${#NODE} + 23)) -gt 107 ]; then
  echo "$D is too long a path for sockets: give the cluster or the node a shorter name" >&2
  exit 1
fi
umask 077
mkdir -p "$D"
[ -s "$D/stamp" ] || echo "$STAMP" > "$D/stamp"
read -r STAMP < "$D/stamp"
[ "$DIRTY" = no ] || end "WHARF_LAUNCH_STEP=$STAMP" HUP
echo "stamp $STAMP"
"#;

/// Searches for what runs. With `DIRTY`, what an interrupted launcher has left running is ended; with `HALF_STARTED` also what it has started,
/// because that will be started again.
pub(crate) const LOOK: &str = r#"
set -e
[ "$DIRTY" = no ] || end "WHARF_LAUNCH_STEP=$STAMP" HUP
[ "$HALF_STARTED" = no ] || end "WHARF_LAUNCHED=$STAMP"
for name in head worker; do if alive $name; then echo "running $name"; fi; done
[ "$MARKED" = no ] || [ -z "$(marked "WHARF_LAUNCHED=$STAMP")" ] || echo "running marked"
"#;

/// Starts a daemon, instead of one that runs, and waits until it is ready. Needs what it says and the words of its command.
pub(crate) const START: &str = r#"
set +m
umask 077
name=$1 ready=$2
shift 2
n=0
while alive "$name"; do
  if [ $n -eq 0 ]; then kill "$pid"; elif [ $n -ge 300 ]; then kill -9 "$pid"; fi
  n=$((n + 1))
  sleep 0.1
done
if [ -f "$D/$name.log" ]; then mv -f "$D/$name.log" "$D/$name.log.1"; fi
WHARF_LAUNCHED="$STAMP" setsid "$@" > "$D/$name.log" 2>&1 < /dev/null &
pid=$!
echo "$pid $(ticks $pid)" > "$D/$name.pid"
n=0
until grep -q "$ready" "$D/$name.log"; do
  if ! alive "$name"; then
    echo "its $name has ended:" >&2
    cat "$D/$name.log" >&2
    exit 1
  fi
  n=$((n + 1))
  if [ $n -ge 300 ]; then
    echo "its $name is not ready after a minute:" >&2
    cat "$D/$name.log" >&2
    exit 1
  fi
  sleep 0.2
done
"#;

/// Has the head cancel its jobs and waits until they have ended, so that nothing of them is left on any node.
pub(crate) const QUIET: &str = r#"
if alive head; then
  "$PROGRAM" cancel --all --yes --home "$D" > /dev/null 2>&1
  n=0
  while [ $n -lt 150 ] && [ "$("$PROGRAM" jobs --home "$D" --output plain | wc -l)" -gt 1 ]; do
    n=$((n + 1))
    sleep 0.2
  done
fi
"#;

/// Ends everything that was started here; in a container also removes what only its user may remove.
pub(crate) const END: &str = r#"
end "WHARF_LAUNCH_STEP=$STAMP" HUP && end "WHARF_LAUNCHED=$STAMP" || exit 1
"#;

/// Removes what was put here.
pub(crate) const CLEAN: &str = r#"
rm -rf "$D" || exit 1
rmdir "${D%/*}" "$HOME/.wharf" 2>/dev/null
exit 0
"#;

/// A script on the machine itself, with its variables.
pub(crate) fn on_machine(cluster: &str, variables: &[(&str, &str)], script: &str) -> String {
    format!("{}D=\"$HOME/.wharf/$NAME\"\n{COMMON}{script}", assigned(cluster, variables))
}

/// A script in the node's container, which has the folder at the same path and is told it as its argument.
pub(crate) fn in_container(cluster: &str, variables: &[(&str, &str)], script: &str) -> String {
    format!("{}D=$1\n{COMMON}{script}", assigned(cluster, variables))
}

fn assigned(cluster: &str, variables: &[(&str, &str)]) -> String {
    let all = [("NAME", cluster)].into_iter().chain(variables.iter().copied());
    all.map(|(name, value)| format!("{name}={}\n", quote(value))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn regular_end_is_not_a_failure() {
        let word = crate::hash::unique();
        let mut stays =
            Command::new("sleep").arg("600").env("WHARF_TEST_END", &word).process_group(0).spawn().unwrap();
        // The first signal is its end; it is collected before the second.
        let script = on_machine(
            "lab",
            &[("WORD", &word)],
            "set -e\nkill() { command kill \"$@\" || return; sleep 0.5; }\nend \"WHARF_TEST_END=$WORD\" HUP\necho over",
        );
        let run =
            Command::new("sh").args(["-c", &script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        stays.wait().unwrap();
        let said = run.wait_with_output().unwrap();
        assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(0), b"over\n".as_slice()));
    }
}
