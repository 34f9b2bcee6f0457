//! Workloads of the Pollux and Sia simulators (OSDI'21, SOSP'23): applications by name, to be trained to their end.
//!
//! The file says neither how long an iteration takes nor how many there are. The first is left to a profile. The second is
//! what the application's data set and its usual number of epochs make at the batch size asked for; that larger batches
//! need more epochs is again a matter for a profile.

use wharf_core::{Gang, JobSpec};

use super::{Codec, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Column, RowCheck, Schema, UnknownColumns};
use crate::text::shown;
use wharf_core::nearest::nearest;

pub(super) static CODEC: Codec = Codec {
    name: "sia",
    about: "workload CSV of the Pollux and Sia simulators",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: Roles {
        id: NAME,
        submit: TIME,
        devices: REPLICAS,
        device_types: None,
        model: APPLICATION,
        stages: 0,
    },
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: None,
    encode: None,
};

const NAME: usize = 0;
const TIME: usize = 1;
const APPLICATION: usize = 2;
const REPLICAS: usize = 3;
const BATCH_SIZE: usize = 4;
const CATEGORY: usize = 5;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "name", required: true },
        Column { name: "time", required: true },
        Column { name: "application", required: true },
        Column { name: "num_replicas", required: true },
        Column { name: "batch_size", required: true },
        Column { name: "category", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// Most devices that Sia gives one job, whatever its profile says.
const DEVICES_MAX: u32 = 64;

/// An application: the epochs it is trained for, and the samples of its data set.
struct Application {
    name: &'static str,
    epochs: f64,
    samples: f64,
}

/// SQuAD, CIFAR-10, CMU ARCTIC, ImageNet, MovieLens (with sampled negatives) and PASCAL VOC.
static APPLICATIONS: [Application; 7] = [
    Application { name: "bert", epochs: 2.0, samples: 88_641.0 },
    Application { name: "cifar10", epochs: 100.0, samples: 50_000.0 },
    Application { name: "deepspeech2", epochs: 80.0, samples: 7_133.0 },
    Application { name: "gpt_pmp", epochs: 2.0, samples: 88_641.0 },
    Application { name: "imagenet", epochs: 90.0, samples: 1_281_167.0 },
    Application { name: "ncf", epochs: 10.0, samples: 4_970_845.0 },
    Application { name: "yolov3", epochs: 50.0, samples: 16_551.0 },
];

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(NAME);
    let submit = row.submit(TIME, 1.0);
    let application = row.name(APPLICATION).and_then(|name| find_application(row, name));
    let replicas = row.gang(REPLICAS);
    let batch_size = row.required_count(BATCH_SIZE);
    if batch_size == Some(0) {
        row.error(BATCH_SIZE, Note::error(Rule::ZeroIterations, "found 0, expected at least one sample"));
    }
    let range = decode_category(row, replicas?, batch_size?);
    if row.is_bad {
        return None;
    }
    let (replicas, batch_size, application, (devices_min, devices_max)) =
        (replicas?, batch_size?, application?, range?);
    let samples = application.epochs * application.samples;
    let iterations = (samples / f64::from(batch_size)).ceil();
    let mut job = JobSpec::new(name?, submit?, replicas, iterations, 0.0);
    job.gang = Gang { devices_min, devices_max, device_types: shared.list(None), ..job.gang };
    job.model = Some(shared.names.get(application.name));
    job.batch_size = Some(batch_size);
    Some(job)
}

fn find_application(row: &mut RowCheck<'_>, name: &str) -> Option<&'static Application> {
    let found = APPLICATIONS.iter().find(|application| application.name == name);
    if found.is_none() {
        let names = || APPLICATIONS.iter().map(|application| application.name);
        let note = Note::error(Rule::UnknownModel, format!("no application {} is known", shown(name)));
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", names().collect::<Vec<_>>().join(", ")),
        };
        row.error(APPLICATION, note.hint(hint));
    }
    found
}

/// Fewest and most devices: rigid jobs run on what they ask for, others on one up to [`DEVICES_MAX`]; but a fixed batch
/// cannot be split over more devices than it has samples.
fn decode_category(row: &mut RowCheck<'_>, replicas: u32, batch_size: u32) -> Option<(u32, u32)> {
    match row.told(CATEGORY).unwrap_or("adaptive") {
        "adaptive" => Some((1, DEVICES_MAX.max(replicas))),
        "scale-gpus" => Some((1, DEVICES_MAX.min(batch_size).max(replicas))),
        "rigid" => Some((replicas, replicas)),
        other => {
            let note =
                Note::error(Rule::NotText, format!("found {}, expected a known category", shown(other)));
            row.error(CATEGORY, note.hint("categories are adaptive, scale-gpus and rigid"));
            None
        }
    }
}
