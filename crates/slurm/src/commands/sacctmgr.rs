//! `wharf sacctmgr`: accounts are the groups of the limits in force, users their users.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead as _;

use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::limits_document::{Entity, Limits, LimitsDocument};
use crate::grammar::table::{self, Field};
use crate::launch::CLUSTER;
use wharf_client::Client;
use wharf_proto::{JobFilter, ListJobsRequest};

use super::{CommandError, Context, own_group, view};

use Takes::Nothing;

/// Accounts of jobs that ended within this time are listed.
const RECENT_S: f64 = 30.0 * 86_400.0;

const CLUSTERS: &[Field] = &[
    ("Cluster", 10),
    ("ControlHost", 15),
    ("ControlPort", 12),
    ("RPC", 5),
    ("Share", 9),
    ("GrpJobs", 7),
    ("GrpTRES", 13),
    ("GrpSubmit", 9),
    ("MaxJobs", 7),
    ("MaxTRES", 13),
    ("MaxSubmit", 9),
    ("MaxWall", 11),
    ("QOS", 20),
    ("Def QOS", 9),
];
const ACCOUNTS: &[Field] = &[("Account", 10), ("Descr", 20), ("Org", 20)];
const USERS: &[Field] = &[("User", 10), ("Def Acct", 10), ("Admin", 9)];
const QUALITIES: &[Field] = &[
    ("Name", 10),
    ("Priority", 10),
    ("GraceTime", 10),
    ("Preempt", 10),
    ("PreemptMode", 11),
    ("Flags", 40),
    ("UsageFactor", 11),
    ("GrpTRES", 13),
    ("GrpTRESMins", 13),
    ("GrpJobs", 7),
    ("GrpSubmit", 9),
    ("GrpWall", 11),
    ("MaxTRES", 13),
    ("MaxWall", 11),
    ("MaxTRESPU", 13),
    ("MaxJobsPU", 9),
    ("MaxSubmitPU", 11),
];
const ASSOCIATIONS: &[Field] = &[
    ("Cluster", 10),
    ("Account", 10),
    ("User", 10),
    ("Partition", 10),
    ("Share", 9),
    ("Priority", 10),
    ("GrpJobs", 7),
    ("GrpTRES", 13),
    ("GrpSubmit", 9),
    ("GrpWall", 11),
    ("GrpTRESMins", 13),
    ("MaxJobs", 7),
    ("MaxTRES", 13),
    ("MaxTRESPerNode", 14),
    ("MaxSubmit", 9),
    ("MaxWall", 11),
    ("MaxTRESMins", 13),
    ("QOS", 20),
    ("Def QOS", 9),
    ("GrpTRESRunMins", 13),
    ("Def Acct", 10),
    ("Admin", 9),
];
/// Fields of users that are listed with their associations.
const USERS_WITH: &str =
    "user,defacct,admin,cluster,account,partition,share,priority,maxjobs,maxsubmit,maxwall,qos,defqos";
const ASSOCIATIONS_BY_DEFAULT: usize = 20;

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let own = [
        Opt::new("associations", 's', Nothing),
        Opt::new("help", 'h', Nothing),
        Opt::new("immediate", 'i', Nothing),
        Opt::new("quiet", 'Q', Nothing),
        Opt::new("readonly", 'r', Nothing),
        Opt::new("version", 'V', Nothing),
    ];
    let options: Vec<Opt> = table::OPTIONS.iter().copied().chain(own).collect();
    let parsed = getopt::parse(&options, words, Order::Anywhere)?;
    let words: Vec<&str> = parsed.rest.iter().map(String::as_str).collect();
    let Some((verb, rest)) = words.split_first() else {
        return Err(CommandError::failed("no command given: show, add, modify or delete"));
    };
    let client = &context.connect().await?;
    let is = |name: &str| name.starts_with(&verb.to_ascii_lowercase());
    match () {
        () if is("show") || is("list") => show(context, client, &parsed, rest).await,
        () if is("add") || is("create") => change(context, client, &parsed, rest, Verb::Add).await,
        () if is("modify") || is("update") => change(context, client, &parsed, rest, Verb::Modify).await,
        () if is("delete") || is("remove") => change(context, client, &parsed, rest, Verb::Delete).await,
        () if is("ping") => {
            context.print(&[format!("slurmdbd(primary) at wharf {} is UP", client.info().await?.version)])?;
            Ok(0)
        }
        () => Err(CommandError::failed(format!("Unknown command: {verb}"))),
    }
}

/// The pairs of account and user that are known: of the limits in force, and of recent jobs.
pub(super) async fn associations(
    client: &Client,
    document: &LimitsDocument,
    user: Option<&str>,
) -> Result<BTreeSet<(String, String)>, CommandError> {
    let filter = JobFilter {
        user: user.map(str::to_owned),
        since_s: Some(view::now_s() - RECENT_S),
        ..JobFilter::default()
    };
    let jobs =
        client.list_jobs(ListJobsRequest { filter: Some(filter), ..ListJobsRequest::default() }).await?;
    let of_jobs = jobs.into_iter().map(|job| (job.account, job.user));
    let groups = document.accounts().into_iter();
    let of_groups =
        groups.flat_map(|(account, users)| users.into_iter().map(move |user| (account.clone(), user)));
    let me = client.info().await?.user;
    let own = own_group().map(|group| (group, me));
    let all = of_jobs.chain(of_groups).chain(own);
    Ok(all.filter(|(account, name)| !account.is_empty() && user.is_none_or(|user| user == name)).collect())
}

pub(super) async fn document(client: &Client) -> Result<LimitsDocument, CommandError> {
    Ok(LimitsDocument::parse(&client.limits("").await?.text)?)
}

/// `name=value` and plain words after an entity, up to `set`.
struct Conditions<'a> {
    names: Vec<String>,
    pairs: Vec<(String, &'a str)>,
}

fn conditions<'a>(words: &[&'a str]) -> Conditions<'a> {
    let mut found = Conditions { names: Vec::new(), pairs: Vec::new() };
    for word in words.iter().filter(|word| !word.eq_ignore_ascii_case("where")) {
        match word.split_once('=') {
            Some((name, value)) => found.pairs.push((name.to_ascii_lowercase(), value)),
            None => found.names.extend(word.split(',').map(str::to_owned)),
        }
    }
    let named = |pairs: &[(String, &str)], wanted: &[&str]| -> Vec<String> {
        let values = pairs.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
        values.flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    found.names.extend(named(&found.pairs, &["name", "names"]));
    found
}

impl Conditions<'_> {
    fn values(&self, wanted: &[&str]) -> Vec<String> {
        let values = self.pairs.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
        values.flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Whether a word without a value is there.
    fn has(&self, word: &str) -> bool {
        self.names.iter().any(|name| name.eq_ignore_ascii_case(word))
    }
}

type Row = BTreeMap<&'static str, String>;

async fn show(
    context: &Context,
    client: &Client,
    parsed: &Parsed,
    words: &[&str],
) -> Result<u8, CommandError> {
    let Some((entity, rest)) = words.split_first() else {
        return Err(CommandError::failed("show what? account, association, cluster, qos or user"));
    };
    let conditions = conditions(rest);
    let entity = entity.to_ascii_lowercase();
    let is = |name: &str| entity.len() > 1 && name.starts_with(entity.trim_end_matches('s'));
    let (fields, usual, rows): (&[Field], Option<String>, Vec<Row>) = if is("users") {
        let with = parsed.has("associations") || conditions.has("withassoc");
        let rows = users(client, &conditions, with).await?;
        (if with { ASSOCIATIONS } else { USERS }, with.then(|| USERS_WITH.to_owned()), rows)
    } else if is("associations") {
        let usual: Vec<&str> =
            ASSOCIATIONS.iter().take(ASSOCIATIONS_BY_DEFAULT).map(|(name, _)| *name).collect();
        (ASSOCIATIONS, Some(usual.join(",")), rows_of_associations(client, &conditions).await?)
    } else if is("accounts") {
        (ACCOUNTS, None, accounts(client, &conditions).await?)
    } else if is("qos") {
        let normal = [
            ("Name", "normal"),
            ("Priority", "0"),
            ("GraceTime", "00:00:00"),
            ("PreemptMode", "cluster"),
            ("UsageFactor", "1.000000"),
        ];
        (QUALITIES, None, vec![row(&normal)])
    } else if is("clusters") {
        (CLUSTERS, None, vec![row(&[("Cluster", CLUSTER), ("Share", "1"), ("QOS", "normal")])])
    } else if is("tres") {
        let tres = [
            ("cpu", "", "1"),
            ("mem", "", "2"),
            ("node", "", "4"),
            ("billing", "", "5"),
            ("gres", "gpu", "1001"),
        ];
        let rows = tres.map(|(kind, name, id)| row(&[("Type", kind), ("Name", name), ("ID", id)])).to_vec();
        (&[("Type", 8), ("Name", 15), ("ID", 6)], None, rows)
    } else {
        return Err(CommandError::failed(format!("Unknown entity: {entity}")));
    };
    let format = conditions.values(&["format"]).join(",");
    let given =
        parsed.value("format").map(str::to_owned).or(Some(format).filter(|format| !format.is_empty()));
    let format = given.or(usual).unwrap_or_else(|| "all".to_owned());
    let columns = table::columns(fields, &format)
        .map_err(|unknown| CommandError::failed(format!("Unknown field '{unknown}'")))?;
    let value = |row: &Row, field: &str| row.get(field).cloned().unwrap_or_default();
    context.print(&table::lines(&columns, &rows, parsed, value))?;
    Ok(0)
}

fn row(values: &[(&'static str, &str)]) -> Row {
    values.iter().map(|(field, value)| (*field, (*value).to_owned())).collect()
}

fn association(account: &str, user: &str, limits: &Limits) -> Row {
    let jobs = limits.jobs.map(|jobs| jobs.to_string()).unwrap_or_default();
    let mut row = row(&[
        ("Cluster", CLUSTER),
        ("Account", account),
        ("User", user),
        ("Share", "1"),
        ("GrpTRES", &limits.tres),
        ("GrpTRESMins", &limits.tres_minutes),
        ("QOS", "normal"),
    ]);
    row.insert(if user.is_empty() { "GrpJobs" } else { "MaxJobs" }, jobs);
    row
}

async fn rows_of_associations(
    client: &Client,
    conditions: &Conditions<'_>,
) -> Result<Vec<Row>, CommandError> {
    let document = document(client).await?;
    let users = conditions.values(&["user", "users"]);
    let accounts = conditions.values(&["account", "accounts", "acct"]);
    let one = if users.len() == 1 { users.first().map(String::as_str) } else { None };
    let pairs = associations(client, &document, one).await?;
    let mut names: BTreeSet<String> = pairs.iter().map(|(account, _)| account.clone()).collect();
    names.extend(document.accounts().into_iter().map(|(account, _)| account));
    let mut rows = Vec::new();
    for account in names.iter().filter(|name| accounts.is_empty() || accounts.contains(name)) {
        if users.is_empty() {
            rows.push(association(account, "", &document.limits(&Entity::Account(account.clone()))));
        }
        let of =
            pairs.iter().filter(|(of, user)| of == account && (users.is_empty() || users.contains(user)));
        rows.extend(
            of.map(|(_, user)| association(account, user, &document.limits(&Entity::User(user.clone())))),
        );
    }
    Ok(rows)
}

async fn users(client: &Client, conditions: &Conditions<'_>, with: bool) -> Result<Vec<Row>, CommandError> {
    let document = document(client).await?;
    let named: Vec<String> =
        conditions.names.iter().filter(|name| !name.eq_ignore_ascii_case("withassoc")).cloned().collect();
    let one = if named.len() == 1 { named.first().map(String::as_str) } else { None };
    let pairs = associations(client, &document, one).await?;
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for user in document.users() {
        of.entry(user).or_default();
    }
    for (account, user) in pairs {
        of.entry(user).or_default().push(account);
    }
    let is_wanted = |user: &String| named.is_empty() || named.contains(user);
    let mut rows = Vec::new();
    for (user, accounts) in of.iter().filter(|(user, _)| is_wanted(user)) {
        let limits = document.limits(&Entity::User(user.clone()));
        let default = accounts.first().map_or("", String::as_str);
        let shown = if with { accounts.iter().map(String::as_str).collect() } else { vec![default] };
        for account in shown {
            let mut row = association(account, user, &limits);
            row.insert("Def Acct", default.to_owned());
            row.insert("Admin", "None".to_owned());
            rows.push(row);
        }
    }
    Ok(rows)
}

async fn accounts(client: &Client, conditions: &Conditions<'_>) -> Result<Vec<Row>, CommandError> {
    let document = document(client).await?;
    let mut names: BTreeSet<String> =
        associations(client, &document, None).await?.into_iter().map(|(account, _)| account).collect();
    names.extend(document.accounts().into_iter().map(|(account, _)| account));
    let is_wanted = |name: &&String| conditions.names.is_empty() || conditions.names.contains(name);
    let of = |name: &String| row(&[("Account", name), ("Descr", name), ("Org", name)]);
    Ok(names.iter().filter(is_wanted).map(of).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Add,
    Modify,
    Delete,
}

async fn change(
    context: &Context,
    client: &Client,
    parsed: &Parsed,
    words: &[&str],
    verb: Verb,
) -> Result<u8, CommandError> {
    if parsed.has("readonly") {
        return Err(CommandError::failed("Can't run this command in readonly mode."));
    }
    let Some((entity, rest)) = words.split_first() else {
        return Err(CommandError::failed("too few arguments: account or user?"));
    };
    let is_user = entity.to_ascii_lowercase().starts_with("user");
    if !is_user && !entity.to_ascii_lowercase().starts_with("acc") {
        return Err(CommandError::failed(format!(
            "{entity} cannot be changed in Wharf; accounts and users can"
        )));
    }
    let split = rest.iter().position(|word| word.eq_ignore_ascii_case("set")).unwrap_or(rest.len());
    let found = conditions(&rest[..split]);
    let settings = conditions(rest.get(split + 1..).unwrap_or_default()).pairs;
    let accounts = found.values(&["account", "accounts", "acct"]);
    let mut names = found.names.clone();
    names.extend(found.values(if is_user { &["user", "users"] } else { &["account", "accounts", "acct"] }));
    names.dedup();
    if names.is_empty() {
        return Err(CommandError::failed("no name given"));
    }
    if verb != Verb::Add {
        check_conditions(&found, is_user, verb)?;
    }
    let before = client.limits("").await?.text;
    let mut document = LimitsDocument::parse(&before)?;
    let mut lines = Vec::new();
    for name in &names {
        let entity = if is_user { Entity::User(name.clone()) } else { Entity::Account(name.clone()) };
        let nothing = || CommandError::failed("Nothing deleted");
        match (verb, is_user) {
            (Verb::Add, true) if accounts.is_empty() => {
                return Err(CommandError::failed("Need name of account to add user to."));
            }
            (Verb::Add, true) => {
                accounts.iter().try_for_each(|account| document.add(account, Some(name)))?;
                lines.push(format!("  U = {name:<9} A = {}", accounts.join(",")));
            }
            (Verb::Add, false) => {
                document.add(name, None)?;
                lines.push(format!("  {name}"));
            }
            (Verb::Modify, false) if !document.accounts().iter().any(|(known, _)| known == name) => {
                return Err(CommandError::failed(format!(
                    "Nothing modified: {name} has no limits; add it with `sacctmgr add account {name}`"
                )));
            }
            (Verb::Modify, _) => {
                settings.iter().try_for_each(|(setting, value)| document.set(&entity, setting, value))?;
                lines.push(format!("  C = {CLUSTER:<10} {name}"));
            }
            (Verb::Delete, true) => {
                let of: Vec<Option<&str>> = match accounts.as_slice() {
                    [] => vec![None],
                    accounts => accounts.iter().map(|account| Some(account.as_str())).collect(),
                };
                let removed = of.into_iter().filter(|account| document.remove(*account, Some(name))).count();
                if removed == 0 {
                    return Err(nothing());
                }
                lines.push(format!("  C = {CLUSTER:<10} U = {name}"));
            }
            (Verb::Delete, false) => {
                if !document.remove(Some(name), None) {
                    return Err(nothing());
                }
                lines.push(format!("  {name}"));
            }
        }
    }
    // With `add user`, limits follow the account in the same list.
    if verb == Verb::Add {
        let known = [
            "account",
            "accounts",
            "acct",
            "user",
            "users",
            "name",
            "names",
            "cluster",
            "description",
            "organization",
        ];
        for (setting, value) in found.pairs.iter().filter(|(setting, _)| !known.contains(&setting.as_str())) {
            for name in &names {
                let entity = if is_user { Entity::User(name.clone()) } else { Entity::Account(name.clone()) };
                document.set(&entity, setting, value)?;
            }
        }
    }
    let what = if is_user { "User" } else { "Account" };
    let title = match verb {
        Verb::Add => format!(" Adding {what}(s)"),
        Verb::Modify => format!(" Modified {} associations...", what.to_lowercase()),
        Verb::Delete => format!(" Deleting {} associations...", what.to_lowercase()),
    };
    context.print(&[vec![title], lines].concat())?;
    if !parsed.has("immediate") && !is_confirmed(context)? {
        context.print(&[" Changes Discarded".to_owned()])?;
        return Ok(1);
    }
    if client.limits("").await?.text != before {
        return Err(CommandError::failed("the cluster's limits have changed meanwhile; repeat the command"));
    }
    client.set_limits(document.to_string(), false).await?;
    Ok(0)
}

/// Refuses conditions under which another part of the associations is meant than the one that would change.
fn check_conditions(found: &Conditions<'_>, is_user: bool, verb: Verb) -> Result<(), CommandError> {
    let own: &[&str] = match (is_user, verb) {
        (true, Verb::Delete) => &["user", "users", "account", "accounts", "acct"],
        (true, _) => &["user", "users"],
        (false, _) => &["account", "accounts", "acct"],
    };
    let is_known = |name: &str, value: &str| match name {
        "name" | "names" => true,
        "cluster" | "clusters" => value == CLUSTER,
        _ => own.contains(&name),
    };
    let Some((name, value)) = found.pairs.iter().find(|(name, value)| !is_known(name, value)) else {
        return Ok(());
    };
    let whole =
        if is_user { "a user in all accounts and partitions" } else { "an account with all its users" };
    Err(CommandError::failed(format!(
        "the condition {name}={value} is not supported: Wharf's limits are those of {whole} of the cluster `{CLUSTER}`"
    )))
}

fn is_confirmed(context: &Context) -> Result<bool, CommandError> {
    context.print(&["Would you like to commit changes? (N/y): ".to_owned()])?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CommandError::failed(format!("standard input cannot be read: {error}")))?;
    Ok(answer.trim().eq_ignore_ascii_case("y") || answer.trim().eq_ignore_ascii_case("yes"))
}
