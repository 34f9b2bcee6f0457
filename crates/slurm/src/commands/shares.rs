//! `wharf sshare`: shares and usage of accounts and users over the last month.

use std::collections::BTreeMap;

use crate::grammar::getopt::{self, Opt, Order, Takes};
use crate::grammar::table::{self, Field};
use wharf_client::Client;
use wharf_proto::{JobFilter, ListJobsRequest};

use super::{CommandError, Context, sacct, sacctmgr, view};

use Takes::{Nothing, Value};

const FIELDS: &[Field] = &[
    ("Account", -20),
    ("User", 10),
    ("RawShares", 10),
    ("NormShares", 11),
    ("RawUsage", 11),
    ("NormUsage", 11),
    ("EffectvUsage", 13),
    ("FairShare", 10),
    ("LevelFS", 10),
    ("Cluster", 10),
    ("Partition", 12),
];
const DEFAULT: &str = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare";
const LONG: &str = "account,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs";
/// The time that usage is counted over.
const WINDOW_S: f64 = 30.0 * 86_400.0;

/// An account, or a user of one.
struct Row {
    account: String,
    user: String,
    /// Of all shares beside it.
    share: f64,
    device_s: f64,
    /// Of the usage of all.
    usage: f64,
}

impl Row {
    fn value(&self, field: &str) -> String {
        let is_user = !self.user.is_empty();
        let number = |number: f64| format!("{number:.6}");
        match field {
            "Account" if is_user => format!(" {}", self.account),
            "Account" => self.account.clone(),
            "User" => self.user.clone(),
            "RawShares" => "1".to_owned(),
            "NormShares" => number(self.share),
            "RawUsage" => format!("{:.0}", self.device_s),
            "NormUsage" | "EffectvUsage" => number(self.usage),
            // As of the classic fair share: half where usage is as large as the share.
            "FairShare" if is_user => number((-self.usage / self.share.max(f64::MIN_POSITIVE)).exp2()),
            "LevelFS" if self.usage > 0.0 => number(self.share / self.usage),
            "LevelFS" => "inf".to_owned(),
            "Cluster" => crate::launch::CLUSTER.to_owned(),
            _ => String::new(),
        }
    }
}

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let own = [
        Opt::new("Users", 'U', Nothing),
        Opt::new("accounts", 'A', Value),
        Opt::new("all", 'a', Nothing),
        Opt::new("clusters", 'M', Value),
        Opt::new("help", ' ', Nothing),
        Opt::new("long", 'l', Nothing),
        Opt { long: "noheader", short: 'h', takes: Nothing, name: "noheader" },
        Opt::new("users", 'u', Value),
        Opt::new("verbose", 'v', Nothing),
        Opt::new("version", 'V', Nothing),
    ];
    let options: Vec<Opt> = own.into_iter().chain(table::OPTIONS.iter().copied()).collect();
    let parsed = getopt::parse(&options, words, Order::Anywhere)?;
    let list = |name: &str| -> Vec<String> {
        let words = parsed.value(name).unwrap_or_default().split(',');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    sacct::check_clusters(&list("clusters"))?;
    let usual = if parsed.has("long") { LONG } else { DEFAULT };
    let columns = table::columns(FIELDS, parsed.value("format").unwrap_or(usual))
        .map_err(|unknown| CommandError::failed(format!("Invalid field requested: \"{unknown}\"")))?;
    let client = &context.connect().await?;
    let me = client.info().await?.user;
    let (accounts, users) = (list("accounts"), list("users"));
    let mut rows = shares(client).await?;
    rows.retain(|row| {
        let is_own = parsed.has("all") || row.user.is_empty() || row.user == me || users.contains(&row.user);
        is_own
            && (accounts.is_empty() || accounts.contains(&row.account))
            && (users.is_empty() || row.user.is_empty() || users.contains(&row.user))
            && (!parsed.has("Users") || !row.user.is_empty())
    });
    context.print(&table::lines(&columns, &rows, &parsed, Row::value))?;
    Ok(0)
}

/// Accounts, each with its users.
async fn shares(client: &Client) -> Result<Vec<Row>, CommandError> {
    let document = sacctmgr::document(client).await?;
    let mut used: BTreeMap<(String, String), f64> =
        sacctmgr::associations(client, &document, None).await?.into_iter().map(|pair| (pair, 0.0)).collect();
    let (now_s, since_s) = (view::now_s(), view::now_s() - WINDOW_S);
    let filter = JobFilter { since_s: Some(since_s), ..JobFilter::default() };
    let jobs =
        client.list_jobs(ListJobsRequest { filter: Some(filter), ..ListJobsRequest::default() }).await?;
    for job in jobs.into_iter().filter(|job| job.run_s > 0.0) {
        let end_s = if job.end_s > 0.0 { job.end_s } else { now_s };
        let device_s = (end_s - job.run_s.max(since_s)).max(0.0) * f64::from(job.devices);
        *used.entry((job.account, job.user)).or_default() += device_s;
    }
    let total: f64 = used.values().sum();
    let part = |device_s: f64| if total > 0.0 { device_s / total } else { 0.0 };
    let mut of: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for ((account, user), device_s) in used {
        of.entry(account).or_default().push((user, device_s));
    }
    let accounts = of.len() as f64;
    let mut rows = Vec::new();
    for (account, users) in of {
        let (count, device_s) = (users.len() as f64, users.iter().map(|(_, device_s)| device_s).sum());
        let (share, name) = (1.0 / accounts, account.clone());
        rows.push(Row { account, user: String::new(), share, device_s, usage: part(device_s) });
        rows.extend(users.into_iter().map(|(user, device_s)| Row {
            account: name.clone(),
            user,
            share: share / count,
            device_s,
            usage: part(device_s),
        }));
    }
    Ok(rows)
}
