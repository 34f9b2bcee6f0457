//! `wharf sprio`: the priorities of waiting jobs, which have one factor: the number that their users gave them.

use crate::grammar::getopt::{self, Opt, Order, Takes};
use crate::grammar::layout::Layout;
use crate::grammar::outcome::State;
use wharf_proto::ListJobsRequest;

use super::{CommandError, Context, sacct, view};

use Takes::{Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("clusters", 'M', Value),
    Opt::new("format", 'o', Value),
    Opt::new("help", ' ', Nothing),
    Opt::new("jobs", 'j', Value),
    Opt::new("long", 'l', Nothing),
    Opt::new("noheader", 'h', Nothing),
    Opt::new("norm", 'n', Nothing),
    Opt::new("partition", 'p', Value),
    Opt::new("sort", 'S', Value),
    Opt::new("user", 'u', Value),
    Opt::new("verbose", 'v', Nothing),
    Opt::new("version", 'V', Nothing),
];
const DEFAULT: &str = "%.15i %9r %.10Y %.10S";
const LONG: &str = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T";

fn title(letter: char) -> &'static str {
    match letter {
        'i' => "JOBID",
        'r' => "PARTITION",
        'u' => "USER",
        'Y' | 'y' => "PRIORITY",
        'S' => "SITE",
        'A' | 'a' => "AGE",
        'B' | 'b' => "ASSOC",
        'F' | 'f' => "FAIRSHARE",
        'J' | 'j' => "JOBSIZE",
        'P' | 'p' => "PARTITION",
        'Q' | 'q' => "QOS",
        'N' => "NICE",
        'T' | 't' => "TRES",
        'o' => "ACCOUNT",
        'n' => "QOS_NAME",
        'c' => "CLUSTER",
        _ => "N/A",
    }
}

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let list = |name: &str| -> Vec<String> {
        let words = parsed.value(name).unwrap_or_default().split(',');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    sacct::check_clusters(&list("clusters"))?;
    let (ids, users, partitions) = (list("jobs"), list("user"), list("partition"));
    let client = &context.connect().await?;
    let jobs = client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?;
    let mut jobs = view::rows(&jobs, &client.list_nodes().await?, true);
    let one_of = |list: &[String], text: &String| list.is_empty() || list.contains(text);
    jobs.retain(|job| {
        job.state == State::Pending
            && (ids.is_empty() || ids.iter().any(|id| job.is_named(id)))
            && one_of(&users, &job.user)
            && one_of(&partitions, &job.partition)
    });
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.job));
    let layout =
        Layout::parse(parsed.value("format").unwrap_or(if parsed.has("long") { LONG } else { DEFAULT }));
    let field = |job: &crate::grammar::squeue::Job, letter: char| match letter {
        'i' => job.id.clone(),
        'r' => job.partition.clone(),
        'u' => job.user.clone(),
        'o' => job.account.clone(),
        'Y' => job.priority.to_string(),
        'y' => format!("{:.14}", 0.5 + job.priority as f64 / 1e6),
        'N' => (-job.priority.min(0)).to_string(),
        'n' => "normal".to_owned(),
        'c' => crate::launch::CLUSTER.to_owned(),
        'T' | 't' => String::new(),
        _ => "0".to_owned(),
    };
    let rows: Vec<Vec<String>> =
        jobs.iter().map(|job| layout.letters().map(|letter| field(job, letter)).collect()).collect();
    let titles: Vec<String> = layout.letters().map(|letter| title(letter).to_owned()).collect();
    context.print(&layout.lines((!parsed.has("noheader")).then_some(&titles), &rows))?;
    Ok(0)
}
