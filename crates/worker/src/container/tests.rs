//! The command lines of all runtimes, as they were measured, and what docker sends for its own.

use serde_json::{Value, json};

use super::*;
use crate::container::spec::Spec;
use crate::supervisor::protocol::Limit;

/// The container that profiles jobs on each node of a cluster: what its owners type today.
pub(super) fn profiler(runtime: ContainerRuntime) -> Contained {
    Contained {
        task: TaskKey { job: 7, generation: 2 },
        runtime,
        program: vec![runtime.program().to_owned()],
        socket: None,
        spec: Spec {
            image: "image:1".into(),
            name: "crius-worker".into(),
            mounts: vec![Mount { src: "/A".into(), dst: "/B".into(), read_only: false }],
            shm: Shm::Bytes(11_811_160_064),
            network: Network::Host,
            privileged: true,
            hash: "abc".into(),
            ..Spec::default()
        },
        names: vec!["WHARF_JOB_ID".into()],
        set: [("PATH".to_owned(), "/opt/bin".to_owned())].into(),
        gpus: Gpus::Nvidia(vec!["0".into(), "2".into()]),
        needs: Vec::new(),
        workdir: "/W".into(),
        cpus: 0,
        memory_mib: 0,
        owner: "ann".into(),
        state_dir: "/s".into(),
        cache_bytes: 0,
        from_host: false,
        script: None,
        warnings: Vec::new(),
    }
}

fn command() -> Vec<String> {
    ["python", "train.py"].map(String::from).to_vec()
}

const LABELS: &str = "--label wharf.worker=/s --label wharf.task=7-2 --label wharf.owner=ann --label wharf.job=7 \
                      --label wharf.generation=2 --label wharf.spec=abc";

#[test]
fn docker_and_podman_arguments_match_measurements() {
    let docker = docker::run(&profiler(ContainerRuntime::Docker), "image:1", "/f", &command()).unwrap();
    let expected = format!(
        "docker run --name crius-worker --rm {LABELS} --gpus \"device=0,2\" --shm-size=11811160064 --network=host \
         -v /A:/B --privileged -e WHARF_JOB_ID --env-file /f -w /W image:1 python train.py"
    );
    assert_eq!(docker.words.join(" "), expected);
    let podman = docker::run(&profiler(ContainerRuntime::Podman), "image:1", "/f", &command()).unwrap();
    let expected = format!(
        "podman run --name crius-worker --rm {LABELS} --device nvidia.com/gpu=0 --device nvidia.com/gpu=2 \
         --security-opt=label=disable --shm-size=11811160064b --network=host -v /A:/B --privileged -e WHARF_JOB_ID \
         --env-file /f -w /W image:1 python train.py"
    );
    assert_eq!(podman.words.join(" "), expected);
    assert!(docker.warnings.is_empty() && podman.warnings.is_empty());
}

#[test]
fn values_of_variables_are_in_no_command_line() {
    let mut contained = profiler(ContainerRuntime::Podman);
    for name in ["REGISTRY_PASSWORD", "DOCKER_AUTH_CONFIG", "APPTAINER_DOCKER_PASSWORD"] {
        contained.set.insert(name.to_owned(), "hunter2".to_owned());
    }
    contained.set.insert("XDG_TEXT".to_owned(), "two\nlines".to_owned());
    let run = docker::run(&contained, "image:1", "/f", &command()).unwrap();
    let exec = docker::exec(&contained, "/f", &command());
    assert!(run.words.iter().chain(&exec.words).all(|word| !word.contains("hunter2")), "{run:?} {exec:?}");
    let file = docker::variables_file(&contained);
    assert!(file.contains("REGISTRY_PASSWORD=hunter2\n") && !file.contains("XDG_TEXT"), "{file}");
    assert!(run.warnings.iter().any(|warning| warning.contains("XDG_TEXT")));
}

#[test]
fn engines_have_every_field() {
    let mut contained = profiler(ContainerRuntime::Docker);
    contained.gpus = Gpus::None;
    contained.socket = Some("unix:///run/d.sock".into());
    (contained.cpus, contained.memory_mib) = (2, 512);
    contained.needs = vec![Mount::same("/dev/infiniband"), Mount::same("/odd:name")];
    contained.spec = Spec {
        mounts: vec![Mount { src: "volume".into(), dst: "/v".into(), read_only: true }],
        shm: Shm::Host,
        network: Network::None,
        user: "1000:100".into(),
        init: true,
        ulimits: vec![
            Limit { name: "nofile".into(), value: Some(9) },
            Limit { name: "core".into(), value: None },
        ],
        entrypoint: vec!["/entry".into(), "-x".into()],
        devices: vec!["/dev/fuse".into()],
        env_file: "/e".into(),
        keep: true,
        hash: "abc".into(),
        ..Spec::default()
    };
    let expected = |program: &str| {
        format!(
            "{program} run {LABELS} --device /dev/fuse --ipc=host --network=none --device /dev/infiniband --mount \
             type=bind,src=/odd:name,dst=/odd:name -v volume:/v:ro --init --user 1000:100 --ulimit nofile=9:9 --ulimit \
             core=-1:-1 --cpus=2 --memory=512m --env-file /e -e WHARF_JOB_ID --env-file /f -w /W --entrypoint /entry \
             image:1 -x python train.py"
        )
    };
    let docker = docker::run(&contained, "image:1", "/f", &command()).unwrap();
    assert_eq!(docker.words.join(" "), expected("docker --host unix:///run/d.sock"));
    contained.runtime = ContainerRuntime::Podman;
    contained.program = vec!["podman".into()];
    let podman = docker::run(&contained, "image:1", "/f", &command()).unwrap();
    assert_eq!(podman.words.join(" "), expected("podman --remote --url unix:///run/d.sock"));
    contained.needs = vec![Mount::same("/a:b,c")];
    assert!(docker::run(&contained, "image:1", "/f", &command()).is_err());
}

#[test]
fn apptainer_arguments_match_measurements() {
    let mut contained = profiler(ContainerRuntime::Apptainer);
    contained.spec.writable_root = true;
    contained.spec.env_file = "/F".into();
    let argv = apptainer::exec(&contained, "docker://image:1", &command()).unwrap();
    assert_eq!(
        argv.words.join(" "),
        "apptainer --quiet exec --nv --bind /A:/B --writable-tmpfs --cleanenv --env-file /F --pwd /W docker://image:1 python train.py"
    );
    assert_eq!(argv.warnings, ["apptainer has no `privileged`: it is ignored"]);
    contained.spec.privileged = false;
    contained.spec.network = Network::None;
    contained.spec.mounts = vec![Mount { src: "/a,b".into(), dst: "/c:d".into(), read_only: true }];
    let argv = apptainer::exec(&contained, "/x.sif", &command()).unwrap();
    assert!(argv.words.join(" ").contains(r"--bind /a\,b:/c\:d:ro --writable-tmpfs --net --network=none"));
    assert!(argv.warnings.is_empty());
    assert_eq!(apptainer::outside(ContainerRuntime::Apptainer, "A"), "APPTAINERENV_A");
    assert_eq!(apptainer::outside(ContainerRuntime::Singularity, "A"), "SINGULARITYENV_A");
    assert_eq!(apptainer::literal(ContainerRuntime::Singularity).0, "SINGULARITY_NO_EVAL");
}

#[test]
fn charliecloud_arguments_match_measurements() {
    let told = |inherited| charliecloud::Variables { file: "/F", inherited, are_in_image: true };
    let mut contained = profiler(ContainerRuntime::Charliecloud);
    contained.spec.writable_root = true;
    contained.spec.env_file = "/E".into();
    contained.needs = vec![Mount::same("/tmp/state"), Mount::same("/data/ann")];
    let folder = image::Ready::known("/imgs/image");
    let argv = charliecloud::run(&contained, &folder, &told(&[]), &command()).unwrap();
    assert_eq!(
        argv.words.join(" "),
        "ch-run --unset-env=* --set-env --set-env=/E --env-no-expand --set-env=/F --bind=/data/ann:/data/ann --bind=/A:/B \
         --cd=/W --write /imgs/image -- python train.py"
    );
    assert_eq!(argv.warnings, ["charliecloud has no `privileged`: it is ignored"]);
    let bare = charliecloud::Variables { are_in_image: false, ..told(&[]) };
    let bare = charliecloud::run(&contained, &folder, &bare, &command()).unwrap().words.join(" ");
    assert!(bare.starts_with("ch-run --unset-env=* --set-env=/E --env-no-expand "), "{bare}");
    contained.spec.mounts[0].read_only = true;
    contained.spec.privileged = false;
    contained.spec.user = "10:20".into();
    let argv = charliecloud::run(&contained, &folder, &told(&["KEY"]), &command()).unwrap();
    assert_eq!(argv.warnings, ["charliecloud has no `mounts: ro`: it is ignored"]);
    let line = argv.words.join(" ");
    assert!(line.contains("--unset-env=!(KEY) ") && line.contains("--uid=10 --gid=20"), "{line}");
    contained.spec.mounts[0].src = "volume".into();
    let refused = charliecloud::run(&contained, &folder, &told(&[]), &command()).unwrap_err();
    assert!(refused.to_string().contains("is a volume name"), "{refused}");
    contained.spec.mounts.clear();
    let mut named = image::Ready::known("base:1");
    named.store = Some("/var/tmp/ann.ch".into());
    let argv = charliecloud::run(&contained, &named, &told(&[]), &command()).unwrap();
    assert_eq!(argv.warnings, ["charliecloud has no `writable_root`: it is ignored"]);
    assert!(argv.words.join(" ").contains("--cd=/W --storage=/var/tmp/ann.ch --uid=10"), "{:?}", argv.words);
    assert_eq!(named.files(), std::path::Path::new("/var/tmp/ann.ch/img/base+1"));
    let (text, inherited) = charliecloud::file([("A", "it's $HOME"), ("KEY", "two\nlines")]);
    assert_eq!((text.as_str(), inherited.as_slice()), ("A='it's $HOME'\n", &["KEY"][..]));
}

/// What docker's own program sends.
#[test]
fn api_requests_equal_those_of_docker() {
    wharf_testing::needs!(REFERENCE);
    let text = std::fs::read_to_string(wharf_testing::reference("vectors/docker_cli_to_api.json")).unwrap();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let of = |start: &str| {
        let all = vectors["vectors"].as_array().unwrap();
        let found = all.iter().find(|vector| vector["cli"].as_str().unwrap().starts_with(start)).unwrap();
        found["api"].clone()
    };
    let contained = profiler(ContainerRuntime::Docker);
    let body = api::body(&contained, "image:1", &command(), &["WHARF_JOB_ID=7".into()]);
    let (own, theirs) = (&body["HostConfig"], &of("--name crius-worker")["HostConfig"]);
    for field in ["ShmSize", "NetworkMode", "Binds", "Privileged"] {
        assert_eq!(own[field], theirs[field], "{field}");
    }
    // The devices of the placement, never all; removal is done by name when the exit code is known.
    assert_eq!(
        own["DeviceRequests"][0]["DeviceIDs"],
        of("--gpus '\"device=0,2\"'")["DeviceRequests"][0]["DeviceIDs"]
    );
    assert_eq!(own["DeviceRequests"][0]["Capabilities"], theirs["DeviceRequests"][0]["Capabilities"]);
    assert_eq!(own["AutoRemove"], Value::Null);
    assert_eq!(body["Env"], json!(["WHARF_JOB_ID=7", "PATH=/opt/bin"]));
    assert_eq!(body["Labels"]["wharf.task"], "7-2");
    let mut volume = contained;
    volume.spec.mounts = vec![Mount { src: "named".into(), dst: "/n".into(), read_only: false }];
    assert_eq!(api::body(&volume, "image:1", &[], &[])["HostConfig"]["Binds"], of("-v named:/n")["Binds"]);
}

#[test]
fn containers_that_stay_have_no_task() {
    let mut contained = profiler(ContainerRuntime::Docker);
    contained.spec.per_node = true;
    let stay = docker::run_detached(&contained, "image:1").unwrap().words.join(" ");
    assert_eq!(
        stay,
        "docker run -d --init --name crius-worker --label wharf.worker=/s --label wharf.node=crius-worker --label \
         wharf.owner=ann --label wharf.spec=abc --gpus all --shm-size=11811160064 --network=host -v /A:/B --privileged \
         --entrypoint sleep image:1 infinity"
    );
    let exec = docker::exec(&contained, "/f", &command()).words.join(" ");
    assert_eq!(exec, "docker exec -e WHARF_JOB_ID --env-file /f -w /W crius-worker python train.py");
    contained.runtime = ContainerRuntime::Apptainer;
    contained.program = vec!["apptainer".into()];
    let stay = apptainer::start_instance(&contained, "/x.sif").unwrap().words.join(" ");
    assert_eq!(stay, "apptainer --quiet instance start --nv --bind /A:/B /x.sif crius-worker");
}

#[test]
fn driver_libraries_are_put_into_an_image_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("image")).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", at("told").display());
    std::fs::write(at("ch-fromhost"), script).unwrap();
    std::fs::set_permissions(at("ch-fromhost"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut contained = profiler(ContainerRuntime::Charliecloud);
    contained.program = vec![at("ch-run").display().to_string()];
    contained.spec.image = at("image").display().to_string();
    contained.state_dir = dir.path().to_owned();
    let uid = nix::unistd::geteuid().as_raw();
    std::fs::create_dir_all(image::folder(&contained, uid)).unwrap();
    let told = || std::fs::read_to_string(at("told")).unwrap_or_default();
    for (from_host, gpus, expected) in [
        (false, Gpus::Nvidia(vec!["0".into()]), 0),
        (true, Gpus::Amd, 0),
        (true, Gpus::Nvidia(vec!["0".into()]), 1),
        (true, Gpus::Nvidia(vec!["1".into()]), 1),
    ] {
        (contained.from_host, contained.gpus) = (from_host, gpus);
        let ready = image::ready(&contained).unwrap();
        assert_eq!(ready.image, contained.spec.image);
        assert_eq!(told().lines().count(), expected, "{:?}", contained.gpus);
    }
    assert_eq!(told(), format!("--nvidia {}\n", contained.spec.image));
}
