//! `wharf install` into another root: what is there, for whom, twice the same, and gone again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use wharf_testing::needs;

use crate::sandbox::{Sandbox, program};

/// Every file and folder below, with its mode; without the files of the user database, whose making is not ours.
fn tree(root: &Path) -> Vec<(String, u32)> {
    fn add(root: &Path, folder: &Path, found: &mut Vec<(String, u32)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.push((name, path.symlink_metadata().unwrap().mode() & 0o7777));
            if path.is_dir() {
                add(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    add(root, root, &mut found);
    let is_ours = |(name, _): &(String, u32)| {
        !["etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/.pwd.lock"]
            .iter()
            .any(|file| name.starts_with(file))
    };
    found.retain(is_ours);
    found.sort();
    found
}

fn mode(root: &Path, name: &str) -> u32 {
    fs::metadata(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")).mode() & 0o7777
}

/// A sandbox with an empty root that has the user already, so that nothing but files is made.
fn root_with_user() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path().join("root/etc")).unwrap();
    sandbox.write(
        "root/etc/passwd",
        "root:x:0:0::/:/bin/sh\nwharf:x:877:878::/var/lib/wharf:/usr/sbin/nologin\n",
    );
    sandbox
}

#[test]
fn head_and_worker_are_installed_whole_twice_the_same_and_gone_again() {
    needs!(ROOT);
    let sandbox = root_with_user();
    let root = sandbox.path().join("root");
    let empty = tree(&root);
    let shown = sandbox.wharf("install head --root root --dry-run").ok();
    assert!(shown.contains("ExecStart=/usr/local/bin/wharf head --config /etc/wharf/config.toml"), "{shown}");
    assert!(shown.contains("listen = \"127.0.0.1:7717\""), "{shown}");
    assert_eq!(tree(&root), empty, "a dry run does nothing");

    sandbox.wharf("install head --root root --listen 0.0.0.0:7000").ok();
    sandbox.wharf("install worker --root root").ok();
    for (name, expected) in [
        ("usr/local/bin/wharf", 0o755),
        ("etc/systemd/system/wharf-head.service", 0o644),
        ("etc/systemd/system/wharf-worker.service", 0o644),
        ("etc/wharf/config.toml", 0o644),
        ("var/lib/wharf", 0o700),
        ("var/lib/wharf-worker", 0o711),
        ("usr/local/share/man/man1/wharf-token-create.1", 0o644),
        ("usr/local/share/bash-completion/completions/wharf", 0o644),
        ("usr/local/share/zsh/site-functions/_wharf", 0o644),
        ("usr/local/share/fish/vendor_completions.d/wharf.fish", 0o644),
    ] {
        assert_eq!(mode(&root, name), expected, "{name}");
    }
    assert_eq!(fs::read(root.join("usr/local/bin/wharf")).unwrap(), fs::read(program()).unwrap());
    let owner = fs::metadata(root.join("var/lib/wharf")).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (877, 878));
    let config = sandbox.read("root/etc/wharf/config.toml");
    for part in [
        "listen = \"0.0.0.0:7000\"",
        "[client]\nhead = \"127.0.0.1:7000\"",
        "[worker]\nhome = \"/var/lib/wharf-worker\"",
    ] {
        assert!(config.contains(part), "{part}: {config}");
    }
    sandbox.wharf("config check root/etc/wharf/config.toml").ok();

    let before = tree(&root);
    let again: Value =
        serde_json::from_str(&sandbox.wharf("install head --root root --output json").ok()).unwrap();
    assert!(again["steps"].as_array().unwrap().iter().all(|step| step["how"] == "same"), "{again}");
    assert_eq!(tree(&root), before);
    assert_eq!(sandbox.read("root/etc/wharf/config.toml"), config, "an existing configuration stays");

    sandbox.wharf("uninstall head --root root").ok();
    assert!(root.join("usr/local/bin/wharf").exists(), "the worker needs it");
    assert!(!root.join("etc/systemd/system/wharf-head.service").exists());
    sandbox.wharf("uninstall worker --root root").ok();
    assert_eq!(sandbox.read("root/etc/wharf/config.toml"), config);
    sandbox.wharf("uninstall worker --root root --purge").ok();
    sandbox.wharf("uninstall head --root root --purge").ok();
    let files: Vec<_> = tree(&root).into_iter().filter(|(name, _)| root.join(name).is_file()).collect();
    assert_eq!(files, vec![], "no file is left");
    assert!(!root.join("var/lib/wharf").exists() && !root.join("var/lib/wharf-worker").exists());
}

#[test]
fn existing_configuration_stays_unless_forced() {
    let sandbox = root_with_user();
    let own = "[head]\nlisten = '127.0.0.1:1'\n[client]\noutput = 'json'\n";
    fs::create_dir_all(sandbox.path().join("root/etc/wharf")).unwrap();
    sandbox.write("root/etc/wharf/config.toml", own);
    sandbox.wharf("install head --root root").ok();
    assert_eq!(sandbox.read("root/etc/wharf/config.toml"), own);
    sandbox.wharf("install head --root root --force").ok();
    assert!(sandbox.read("root/etc/wharf/config.toml").contains("listen = \"127.0.0.1:7717\""));
    assert_eq!(sandbox.read("root/etc/wharf/config.toml.old"), own);

    for words in ["--join-token-file join.token", "--head node1"] {
        sandbox.wharf(&format!("install worker --root root {words}")).fails(2);
    }
    sandbox.write("root/etc/wharf/config.toml", "[head\n");
    let told = sandbox.wharf("install worker --root root").fails(3);
    assert!(told.contains("config.toml:1:6: "), "{told}");
}

#[test]
fn failed_installation_leaves_everything_as_it_was() {
    let sandbox = root_with_user();
    let root = sandbox.path().join("root");
    // The last file that would be put in its place cannot be.
    fs::create_dir_all(root.join("usr/local/share/fish/vendor_completions.d/wharf.fish")).unwrap();
    let before = tree(&root);
    let told = sandbox.wharf("install head --root root").fails(4);
    assert!(told.contains("wharf.fish"), "{told}");
    assert_eq!(tree(&root), before);
}

#[test]
fn user_is_made_where_there_is_none() {
    needs!(SYSTEMD);
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path().join("root/etc")).unwrap();
    sandbox.wharf("install head --root root").ok();
    let users = sandbox.read("root/etc/passwd");
    let user = users.lines().find(|line| line.starts_with("wharf:")).unwrap_or_else(|| panic!("{users}"));
    assert!(user.contains(":/var/lib/wharf:") && user.ends_with("nologin"), "{user}");
}

#[test]
fn services_are_as_systemd_wants_them() {
    needs!(SYSTEMD);
    let sandbox = root_with_user();
    sandbox.wharf("install head --root root").ok();
    sandbox.wharf("install worker --root root").ok();
    let root = sandbox.path().join("root");
    // What it searches for beside: the targets that every system has.
    let units = root.join("usr/lib/systemd/system");
    fs::create_dir_all(&units).unwrap();
    for target in
        ["network-online", "remote-fs", "nss-user-lookup", "multi-user", "sysinit", "basic", "shutdown"]
    {
        fs::write(units.join(format!("{target}.target")), "[Unit]\nDefaultDependencies=no\n").unwrap();
    }
    for slice in ["system.slice", "-.slice"] {
        fs::write(units.join(slice), "[Unit]\nDefaultDependencies=no\n").unwrap();
    }
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no", "--root"])
        .arg(&root)
        .args(["wharf-head.service", "wharf-worker.service"])
        .output();
    let said = verify.unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && stderr.trim().is_empty(), "{stderr}");
}

#[test]
fn manual_pages_are_printed() {
    let sandbox = Sandbox::new();
    let page = sandbox.wharf("man token create").ok();
    assert!(page.contains(".TH wharf-token-create 1"), "{page}");
    let told = sandbox.wharf("man haed").fails(2);
    assert!(told.contains("did you mean `head`?"), "{told}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(sandbox.wharf(&format!("completions {shell}")).ok().contains("wharf"), "{shell}");
    }
}

#[test]
fn manual_pages_are_formatted_without_warnings() {
    needs!(MAN);
    let sandbox = Sandbox::new();
    let page = sandbox.wharf("man token create").ok();
    let file = sandbox.write("page.1", &page);
    let said =
        Command::new("man").args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8"]).arg(&file).output().unwrap();
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
}
