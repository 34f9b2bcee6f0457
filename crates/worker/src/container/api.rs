//! Containers over docker's HTTP API, which podman serves too: for nodes that have an engine's socket and none of its programs.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Contained, Gpus, Shm, docker};

/// Understood by docker from 19.03 on, and by podman.
const VERSION: &str = "v1.40";
/// How long a followed log may continue after its container's end.
const LOG_END: Duration = Duration::from_secs(2);
/// What a frame of the log begins with: which output it is of, and how long it is.
const HEADER_BYTES: usize = 8;
/// The signals that are handed on, and what the API calls them.
const SIGNALS: [(SignalKind, &str); 6] = [
    (SignalKind::terminate(), "SIGTERM"),
    (SignalKind::interrupt(), "SIGINT"),
    (SignalKind::hangup(), "SIGHUP"),
    (SignalKind::quit(), "SIGQUIT"),
    (SignalKind::user_defined1(), "SIGUSR1"),
    (SignalKind::user_defined2(), "SIGUSR2"),
];

/// Runs a container until its end and returns its exit code.
pub(super) fn run(contained: &Contained, image: &str, command: &[String]) -> Result<u8, String> {
    runtime()?.block_on(async {
        let api = Api::of(contained)?;
        let variables: Vec<String> = contained
            .names
            .iter()
            .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)))
            .collect();
        let id =
            api.create(&contained.spec.name, &body(contained, image, command, &variables), image).await?;
        let code = api.serve(&id).await;
        if !contained.spec.keep {
            api.remove(&id).await?;
        }
        code
    })
}

/// Removes a task's containers, or stops those that are to be kept.
pub(super) fn clean(contained: &Contained) -> Result<(), String> {
    runtime()?.block_on(async {
        let api = Api::of(contained)?;
        let filters = json!({ "label": contained.labels() }).to_string();
        let path = format!("/containers/json?all={}&filters={}", !contained.spec.keep, escaped(&filters));
        let listed = api.json(Method::GET, &path, None).await?;
        for id in listed.as_array().into_iter().flatten().filter_map(|found| found["Id"].as_str()) {
            if contained.spec.keep {
                api.json(Method::POST, &format!("/containers/{id}/kill"), None).await?;
            } else {
                api.remove(id).await?;
            }
        }
        Ok(())
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(|error| format!("cannot talk to the engine: {error}"))
}

/// What a container is created from.
pub(super) fn body(contained: &Contained, image: &str, command: &[String], variables: &[String]) -> Value {
    let spec = &contained.spec;
    let set = contained.set.iter().map(|(name, value)| format!("{name}={value}"));
    let env: Vec<String> = variables.iter().cloned().chain(set).collect();
    let labels: Map<String, Value> = docker::labels(contained)
        .iter()
        .filter_map(|label| label.split_once('=').map(|(name, value)| (name.to_owned(), json!(value))))
        .collect();
    let mut body = json!({
        "Image": image, "Cmd": command, "Env": env, "WorkingDir": contained.workdir, "Labels": labels,
        "HostConfig": host(contained),
    });
    if !spec.entrypoint.is_empty() {
        body["Entrypoint"] = json!(spec.entrypoint);
    }
    if !spec.user.is_empty() {
        body["User"] = json!(spec.user);
    }
    body
}

fn host(contained: &Contained) -> Value {
    let spec = &contained.spec;
    let mut host = Map::new();
    let is_device = |src: &str, dst: &str| src == dst && src.starts_with("/dev/");
    let binds: Vec<String> = contained
        .mounts()
        .filter(|mount| !is_device(&mount.src, &mount.dst))
        .map(|mount| format!("{}:{}{}", mount.src, mount.dst, if mount.read_only { ":ro" } else { "" }))
        .collect();
    let mounted =
        contained.mounts().filter(|mount| is_device(&mount.src, &mount.dst)).map(|mount| &mount.src);
    let amd = ["/dev/kfd".to_owned(), "/dev/dri".to_owned()];
    let amd = if contained.gpus == Gpus::Amd { &amd[..] } else { &[] };
    let devices: Vec<Value> = mounted
        .chain(&spec.devices)
        .chain(amd)
        .map(|path| json!({ "PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm" }))
        .collect();
    let ulimits: Vec<Value> = spec
        .ulimits
        .iter()
        .map(|limit| {
            let value = limit.value.and_then(|value| i64::try_from(value).ok()).unwrap_or(-1);
            json!({ "Name": limit.name, "Soft": value, "Hard": value })
        })
        .collect();
    let mut put = |name: &str, value: Value, is_given: bool| {
        if is_given {
            host.insert(name.to_owned(), value);
        }
    };
    if let Gpus::Nvidia(ids) = &contained.gpus {
        put("DeviceRequests", json!([{ "DeviceIDs": ids, "Capabilities": [["gpu"]] }]), true);
    }
    match spec.shm {
        Shm::Usual => {}
        Shm::Bytes(bytes) => put("ShmSize", json!(bytes), true),
        Shm::Host => put("IpcMode", json!("host"), true),
    }
    put("NetworkMode", json!(spec.network.word()), spec.network.word().is_some());
    put("Binds", json!(binds), !binds.is_empty());
    put("Devices", json!(devices), !devices.is_empty());
    put("Ulimits", json!(ulimits), !ulimits.is_empty());
    put("Privileged", json!(true), spec.privileged);
    put("Init", json!(true), spec.init);
    put("NanoCpus", json!(u64::from(contained.cpus) * 1_000_000_000), contained.cpus > 0);
    put("Memory", json!(contained.memory_mib << 20), contained.memory_mib > 0);
    Value::Object(host)
}

#[derive(Clone)]
struct Api {
    socket: String,
}

impl Api {
    fn of(contained: &Contained) -> Result<Self, String> {
        let socket = contained.socket.as_deref().unwrap_or_default();
        match socket.strip_prefix("unix://") {
            Some(path) => Ok(Self { socket: path.to_owned() }),
            None => {
                Err(format!("`{socket}` needs docker's or podman's program; without it, use unix://PATH"))
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, String> {
        let away =
            |error: &dyn std::fmt::Display| format!("the engine at {} does not answer: {error}", self.socket);
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| away(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| away(&error))?;
        // It ends with the answer; what goes wrong with it shows there.
        drop(tokio::spawn(connection));
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("/{VERSION}{path}"))
            .header("Host", "localhost")
            .header("Content-Type", "application/json")
            .body(Full::new(Bytes::from(text)))
            .map_err(|error| away(&error))?;
        sender.send_request(request).await.map_err(|error| away(&error))
    }

    /// Sends and reads all of the answer; the engine's own words where it refuses.
    async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(value);
        }
        let said = value["message"].as_str().map_or_else(|| status.to_string(), str::to_owned);
        Err(format!("the container engine failed: {said}"))
    }

    /// Creates a container; an image that is not there is pulled first.
    async fn create(&self, name: &str, body: &Value, image: &str) -> Result<String, String> {
        let query = if name.is_empty() { String::new() } else { format!("?name={}", escaped(name)) };
        let path = format!("/containers/create{query}");
        let inspected = self.send(Method::GET, &format!("/images/{}/json", escaped(image)), None).await?;
        if inspected.status() == StatusCode::NOT_FOUND {
            super::enter::say(&format!("pulls the image {image}"));
            self.pull(image).await?;
        }
        let created = self.json(Method::POST, &path, Some(body)).await?;
        created["Id"].as_str().map(str::to_owned).ok_or_else(|| "the engine gave no container".to_owned())
    }

    /// Pulls; the engine answers immediately and reports progress line by line.
    async fn pull(&self, image: &str) -> Result<(), String> {
        let path = format!("/images/create?fromImage={}", escaped(image));
        let answer = self.send(Method::POST, &path, None).await?;
        let is_taken = answer.status().is_success();
        let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let refused = lines
            .filter_map(|line| line["error"].as_str().or(line["message"].as_str()).map(str::to_owned))
            .next_back();
        match refused {
            Some(error) => Err(format!("cannot pull {image}: {error}")),
            None if is_taken => Ok(()),
            None => Err(format!("cannot pull {image}: {text}")),
        }
    }

    /// Starts a container, copies its output, hands on signals, and waits for its end.
    async fn serve(&self, id: &str) -> Result<u8, String> {
        let mut signals = Vec::new();
        for (kind, name) in SIGNALS {
            signals.push((signal(kind).map_err(|error| format!("cannot watch for signals: {error}"))?, name));
        }
        self.json(Method::POST, &format!("/containers/{id}/start"), None).await?;
        let copied = Arc::new(AtomicUsize::new(0));
        // Not waited for here: the answer may begin only with the first word that the container says.
        let mut copying = tokio::spawn(self.clone().log(id.to_owned(), true, copied.clone()));
        let path = format!("/containers/{id}/wait");
        let mut ended = std::pin::pin!(self.json(Method::POST, &path, None));
        let ended = loop {
            tokio::select! {
                ended = &mut ended => break ended?,
                name = any(&mut signals) => {
                    let path = format!("/containers/{id}/kill?signal={name}");
                    // One that has ended meanwhile hears no signal.
                    let _ = self.json(Method::POST, &path, None).await;
                }
            }
        };
        // The log ends with the container, but podman's can miss that: then it is read once more, from where it was.
        if tokio::time::timeout(LOG_END, &mut copying).await.is_err() {
            copying.abort();
            self.clone().log(id.to_owned(), false, copied).await;
        }
        let code = ended["StatusCode"].as_i64().unwrap_or(1);
        Ok(u8::try_from(code & 0xff).unwrap_or(1))
    }

    /// Copies a container's log, but for so many bytes as were copied before; also what comes, where it is followed.
    async fn log(self, id: String, is_followed: bool, copied: Arc<AtomicUsize>) {
        let path = format!("/containers/{id}/logs?follow={is_followed}&stdout=true&stderr=true");
        match self.send(Method::GET, &path, None).await {
            Ok(logs) => copy(logs.into_body(), &copied).await,
            Err(error) => super::enter::say(&format!("cannot read its output: {error}")),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), String> {
        let answer = self.send(Method::DELETE, &format!("/containers/{id}?force=true"), None).await?;
        let status = answer.status();
        if status.is_success() || status == StatusCode::NOT_FOUND || status == StatusCode::CONFLICT {
            return Ok(());
        }
        Err(format!("the engine cannot remove the container: {status}"))
    }
}

/// The first of the signals that comes.
async fn any(signals: &mut [(Signal, &'static str)]) -> &'static str {
    std::future::poll_fn(|context| {
        for (signal, name) in signals.iter_mut() {
            if signal.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*name);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// Takes the log's frames apart: each states whether it was written to the output or to the error output. What was copied before is
/// passed over, and what is copied now is counted.
async fn copy(mut body: Incoming, copied: &AtomicUsize) {
    let mut waiting: Vec<u8> = Vec::new();
    let mut known = copied.load(Ordering::Relaxed);
    // A log that breaks off has told what it had.
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        waiting.extend_from_slice(data);
        while let Some((stream, length)) = header(&waiting) {
            let Some(text) = waiting.get(HEADER_BYTES..HEADER_BYTES + length) else { break };
            let fresh = &text[known.min(length)..];
            known -= known.min(length);
            // The task's log may not be writable.
            let _ = if stream == 2 { io::stderr().write_all(fresh) } else { io::stdout().write_all(fresh) };
            let _ = io::stdout().flush();
            copied.fetch_add(fresh.len(), Ordering::Relaxed);
            waiting.drain(..HEADER_BYTES + length);
        }
    }
}

fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    Some((header[0], length as usize))
}

/// A text as a part of an address.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(letter).collect()
}
