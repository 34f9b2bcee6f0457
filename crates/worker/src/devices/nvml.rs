//! Devices as NVIDIA's management library tells them, which is loaded at run time where it is there.
//!
//! The library lives on a thread of its own: it can hang with a broken device, and nothing else must hang with it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml};
use tokio::sync::oneshot;
use wharf_proto::Device;

use super::source::ReadError;

/// Beside the driver's own name for it, which only development packages bring.
const LIBRARY: &str = "libnvidia-ml.so.1";
const TIME_LIMIT: Duration = Duration::from_secs(30);
const MIB: u64 = 1024 * 1024;

/// Xid errors that a program makes on a device that is well, as NVIDIA's catalogue has them: 13 engine exception, 31 page fault,
/// 43 stopped processing, 45 preemptive cleanup, 68 video processor exception.
const XIDS_OF_PROGRAMS: [u64; 5] = [13, 31, 43, 45, 68];
/// Stands for an error whose number was not told.
const XID_UNKNOWN: u64 = 999;

type Reply = oneshot::Sender<Result<Vec<Device>, ReadError>>;

/// The thread that the library lives on.
pub(super) struct Library {
    questions: mpsc::Sender<Reply>,
}

impl Library {
    /// Loads the library; none where there is none, or no driver.
    pub(super) async fn open() -> Option<Self> {
        if crate::is_static() {
            return None;
        }
        let (questions, asked) = mpsc::channel::<Reply>();
        let (ready, opened) = oneshot::channel();
        thread::spawn(move || match load() {
            Ok(nvml) => {
                if ready.send(()).is_ok() {
                    serve(&nvml, &asked);
                }
            }
            Err(_) => drop(ready),
        });
        tokio::time::timeout(TIME_LIMIT, opened).await.ok()?.ok()?;
        Some(Self { questions })
    }

    /// All devices of this machine.
    pub(super) async fn read(&self) -> Result<Vec<Device>, ReadError> {
        let gone = || ReadError::Failed("the NVIDIA driver's library is unloaded".to_owned());
        let (reply, answer) = oneshot::channel();
        self.questions.send(reply).map_err(|_| gone())?;
        match tokio::time::timeout(TIME_LIMIT, answer).await {
            Ok(devices) => devices.map_err(|_| gone())?,
            Err(_) => Err(ReadError::Failed(format!(
                "the NVIDIA driver has not answered for {} s",
                TIME_LIMIT.as_secs()
            ))),
        }
    }
}

fn load() -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().or_else(|_| Nvml::init())
}

/// Answers until there are no clients.
fn serve(nvml: &Nvml, asked: &mpsc::Receiver<Reply>) {
    let events = watch_errors(nvml);
    let mut errors = BTreeMap::new();
    while let Ok(reply) = asked.recv() {
        events.iter().for_each(|set| note_errors(set, &mut errors));
        // The receiver of a late answer is gone.
        let _ = reply.send(devices(nvml, &errors));
    }
}

/// One set for each device, because a set is lost with the first device that has no events.
fn watch_errors(nvml: &Nvml) -> Vec<EventSet<'_>> {
    let watch = |index| {
        let set = nvml.create_event_set().ok()?;
        nvml.device_by_index(index).ok()?.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok()
    };
    (0..nvml.device_count().unwrap_or(0)).filter_map(watch).collect()
}

/// Takes what has happened to a device, without waiting for more.
fn note_errors(set: &EventSet<'_>, errors: &mut BTreeMap<String, u64>) {
    while let Ok(event) = set.wait(0) {
        let xid = match event.event_data {
            Some(XidError::Value(xid)) => xid,
            Some(XidError::Unknown) => XID_UNKNOWN,
            None => continue,
        };
        if let Ok(uuid) = event.device.uuid()
            && !XIDS_OF_PROGRAMS.contains(&xid)
        {
            errors.insert(uuid, xid);
        }
    }
}

fn devices(nvml: &Nvml, errors: &BTreeMap<String, u64>) -> Result<Vec<Device>, ReadError> {
    let failed = |error: NvmlError| ReadError::Failed(format!("NVIDIA driver error: {error}"));
    let count = nvml.device_count().map_err(failed)?;
    // A device that cannot even be named is missing in the answer, and thereby vanished.
    Ok((0..count).filter_map(|index| device(nvml, index, errors).ok()).collect())
}

fn device(nvml: &Nvml, index: u32, errors: &BTreeMap<String, u64>) -> Result<Device, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let (uuid, model) = (device.uuid()?, device.name()?);
    let memory = device.memory_info();
    let temperature = device.temperature(TemperatureSensor::Gpu).ok();
    let limit = device.temperature_threshold(TemperatureThreshold::Shutdown).ok();
    let uncorrected = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).unwrap_or(0);
    let problem = match (&memory, errors.get(&uuid), temperature, limit) {
        (Err(NvmlError::GpuLost), ..) => "it has fallen off the bus".to_owned(),
        (_, Some(xid), ..) => format!("Xid error {xid}"),
        (_, _, Some(now), Some(limit)) if limit > 0 && now >= limit => format!("too hot: {now} °C"),
        _ => super::memory_errors(uncorrected),
    };
    Ok(Device {
        index,
        uuid,
        model,
        memory_mib: memory.as_ref().map_or(0, |memory| memory.total / MIB),
        problem,
        utilisation: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
        memory_used_mib: memory.ok().map(|memory| memory.used / MIB),
        temperature_c: temperature.map(f64::from),
    })
}
