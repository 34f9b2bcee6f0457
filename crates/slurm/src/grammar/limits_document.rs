//! Associations of Slurm in Wharf's document of limits: accounts are its groups, users its users.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::refusal::Refusal;

/// The window of a limit on usage that has none yet.
const USAGE_WINDOW: &str = "30d";

/// Whose limits are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    /// A user's, `[user.NAME]`.
    User(String),
    /// An account's, `[group.NAME]`.
    Account(String),
}

impl Entity {
    fn place(&self) -> (&'static str, &str) {
        match self {
            Self::User(name) => ("user", name),
            Self::Account(name) => ("group", name),
        }
    }
}

/// A document of limits that is read, and changed with its comments.
#[derive(Clone, Debug)]
pub struct LimitsDocument(DocumentMut);

/// What is set of an association.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Jobs at a time.
    pub jobs: Option<i64>,
    /// Devices at a time, of all types and of one: `gres/gpu=4,gres/gpu:a100=2`.
    pub tres: String,
    /// Minutes of devices, as `gres/gpu=600`.
    pub tres_minutes: String,
}

/// A reservation as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// The nodes that it names.
    pub nodes: Vec<String>,
    /// How many nodes it has.
    pub count: usize,
    /// The pool that they are of.
    pub pool: Option<String>,
    /// A moment, or a span after the limits were applied.
    pub start: String,
    /// Likewise.
    pub end: String,
    /// Users whose jobs may run on them.
    pub users: Vec<String>,
    /// Groups whose jobs may.
    pub groups: Vec<String>,
}

impl LimitsDocument {
    /// Reads a document that a head has in force.
    ///
    /// # Errors
    /// [`Refusal`] where it is none.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        text.parse().map(Self).map_err(|error| Refusal::failed(format!("limits of the cluster: {error}")))
    }

    /// Accounts with their users.
    #[must_use]
    pub fn accounts(&self) -> Vec<(String, Vec<String>)> {
        let Some(groups) = self.0.get("group").and_then(Item::as_table_like) else { return Vec::new() };
        let users = |group: &Item| {
            let users = group.get("users").and_then(Item::as_array).into_iter().flatten();
            users.filter_map(|user| user.as_str()).map(str::to_owned).collect()
        };
        groups.iter().map(|(name, group)| (name.to_owned(), users(group))).collect()
    }

    /// Users with limits of their own.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let users = self.0.get("user").and_then(Item::as_table_like);
        users.into_iter().flat_map(|users| users.iter().map(|(name, _)| name.to_owned())).collect()
    }

    /// Reservations as they are written.
    #[must_use]
    pub fn reservations(&self) -> Vec<Reservation> {
        let all = self.0.get("reservation").and_then(Item::as_array_of_tables);
        let one = |table: &Table| {
            let text = |key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
            let list = |key: &str| {
                let all = table.get(key).and_then(Item::as_array).into_iter().flatten();
                all.filter_map(|one| one.as_str()).map(str::to_owned).collect::<Vec<_>>()
            };
            let (nodes, count) = (list("nodes"), table.get("count").and_then(Item::as_integer));
            Reservation {
                name: text("name").unwrap_or_default(),
                count: count.and_then(|count| usize::try_from(count).ok()).unwrap_or(nodes.len()),
                nodes,
                pool: text("pool"),
                start: text("start").unwrap_or_default(),
                end: text("end").unwrap_or_default(),
                users: list("users"),
                groups: list("groups"),
            }
        };
        all.into_iter().flat_map(|all| all.iter().map(one)).collect()
    }

    /// A pool's setting such as `time_limit_max`.
    #[must_use]
    pub fn pool_time(&self, pool: &str, key: &str) -> Option<String> {
        self.0.get("pool")?.get(pool)?.get(key)?.as_str().map(str::to_owned)
    }

    /// The limits of an association.
    #[must_use]
    pub fn limits(&self, entity: &Entity) -> Limits {
        let (kind, name) = entity.place();
        let Some(section) = self.0.get(kind).and_then(|all| all.get(name)) else { return Limits::default() };
        let number = |key: &str| section.get(key).and_then(Item::as_integer);
        let mut tres: Vec<String> =
            number("devices").map(|devices| format!("gres/gpu={devices}")).into_iter().collect();
        let of = section.get("devices_of").and_then(Item::as_table_like);
        for (kind, count) in of.into_iter().flat_map(|of| of.iter()) {
            let name = if kind == "cpu" { "cpu".to_owned() } else { format!("gres/gpu:{kind}") };
            tres.push(format!("{name}={}", count.as_integer().unwrap_or_default()));
        }
        let hours = section
            .get("gpu_hours")
            .and_then(|hours| hours.as_float().or_else(|| hours.as_integer().map(|hours| hours as f64)));
        Limits {
            jobs: number("jobs"),
            tres: tres.join(","),
            tres_minutes: hours.map_or_else(String::new, |hours| format!("gres/gpu={:.0}", hours * 60.0)),
        }
    }

    fn section(&mut self, entity: &Entity) -> Result<&mut Table, Refusal> {
        let (kind, name) = entity.place();
        let odd = || {
            Refusal::failed(format!(
                "the cluster's limits have `{kind}.{name}` as something other than a section"
            ))
        };
        let mut all = Table::new();
        all.set_implicit(true);
        let all = self.0.entry(kind).or_insert(Item::Table(all));
        let all = all.as_table_mut().ok_or_else(odd)?;
        all.entry(name).or_insert(Item::Table(Table::new())).as_table_mut().ok_or_else(odd)
    }

    /// Adds an account, or a user to one.
    ///
    /// # Errors
    /// [`Refusal`] where the document has something else there.
    pub fn add(&mut self, account: &str, user: Option<&str>) -> Result<(), Refusal> {
        let section = self.section(&Entity::Account(account.to_owned()))?;
        let users = section.entry("users").or_insert(value(Array::new())).as_array_mut();
        let users = users.ok_or_else(|| Refusal::failed(format!("`users` of group {account} is no list")))?;
        if let Some(user) = user
            && !users.iter().any(|known| known.as_str() == Some(user))
        {
            users.push(user);
        }
        Ok(())
    }

    /// Removes an account, or a user from one account or all, with limits of their own; whether there was one.
    pub fn remove(&mut self, account: Option<&str>, user: Option<&str>) -> bool {
        let Some(user) = user else {
            let groups = self.0.get_mut("group").and_then(Item::as_table_like_mut);
            return groups.zip(account).is_some_and(|(groups, name)| groups.remove(name).is_some());
        };
        let mut is_found = false;
        let groups = self.0.get_mut("group").and_then(Item::as_table_like_mut);
        for (name, group) in groups.into_iter().flat_map(|groups| groups.iter_mut()) {
            if account.is_none_or(|account| account == name.get())
                && let Some(users) = group.get_mut("users").and_then(Item::as_array_mut)
            {
                let before = users.len();
                users.retain(|known| known.as_str() != Some(user));
                is_found |= users.len() < before;
            }
        }
        if account.is_none() {
            let users = self.0.get_mut("user").and_then(Item::as_table_like_mut);
            is_found |= users.is_some_and(|users| users.remove(user).is_some());
        }
        is_found
    }

    /// Sets `name=value` of an association; `-1` removes a limit.
    ///
    /// # Errors
    /// [`Refusal`] where Wharf has no such limit, or the value is none.
    pub fn set(&mut self, entity: &Entity, name: &str, text: &str) -> Result<(), Refusal> {
        let invalid = || Refusal::failed(format!("Invalid value for {name}: {text}"));
        let count = |text: &str| text.parse::<i64>().map_err(|_| invalid());
        let section = self.section(entity)?;
        match name.to_ascii_lowercase().as_str() {
            "maxjobs" | "grpjobs" => put(section, "jobs", count(text)?),
            "grptres" | "grptresrun" => {
                for part in text.split(',') {
                    let (kind, number) = part.split_once('=').ok_or_else(invalid)?;
                    let number = count(number)?;
                    match kind.strip_prefix("gres/gpu:").or_else(|| (kind == "cpu").then_some("cpu")) {
                        None if kind == "gres/gpu" => put(section, "devices", number),
                        None => return Err(invalid()),
                        Some(kind) => {
                            let of = section.entry("devices_of").or_insert(value(InlineTable::new()));
                            put(of.as_table_like_mut().ok_or_else(invalid)?, kind, number);
                        }
                    }
                }
            }
            "grptresmins" => {
                let minutes = count(text.strip_prefix("gres/gpu=").ok_or_else(invalid)?)?;
                if minutes < 0 {
                    for key in ["gpu_hours", "per", "stop_at_limit"] {
                        section.remove(key);
                    }
                } else {
                    section.insert("gpu_hours", value(minutes as f64 / 60.0));
                    section.entry("per").or_insert(value(USAGE_WINDOW));
                }
            }
            other => {
                return Err(Refusal::failed(format!(
                    "Wharf has no limit {other}: MaxJobs, GrpJobs, GrpTRES (gres/gpu, gres/gpu:TYPE, cpu) and GrpTRESMins (gres/gpu) can be set"
                )));
            }
        }
        Ok(())
    }
}

/// Sets a number, or removes it where it is negative.
fn put(table: &mut dyn TableLike, key: &str, number: i64) {
    if number < 0 {
        table.remove(key);
    } else {
        table.insert(key, value(number));
    }
}

impl std::fmt::Display for LimitsDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# ours\nstarvation = \"24h\"\n\n[user.ann]\ndevices = 64 # for the paper\n\n[group.vision]\nusers = [\"ann\"]\n";

    #[test]
    fn changes_keep_what_they_do_not_concern() {
        let mut document = LimitsDocument::parse(DOCUMENT).unwrap();
        let ann = Entity::User("ann".to_owned());
        document.add("speech", None).unwrap();
        document.add("speech", Some("bob")).unwrap();
        document.add("speech", Some("bob")).unwrap();
        document.add("vision", Some("bob")).unwrap();
        document.set(&ann, "MaxJobs", "5").unwrap();
        document.set(&ann, "GrpTRES", "gres/gpu=32,gres/gpu:a100=8,cpu=64").unwrap();
        document.set(&ann, "GrpTRESMins", "gres/gpu=600").unwrap();
        let text = document.to_string();
        assert!(text.starts_with("# ours\nstarvation = \"24h\"\n"), "{text}");
        assert!(text.contains("devices = 32"), "{text}");
        let again = LimitsDocument::parse(&text).unwrap();
        let limits = again.limits(&ann);
        let tres = "gres/gpu=32,gres/gpu:a100=8,cpu=64".to_owned();
        assert_eq!(limits, Limits { jobs: Some(5), tres, tres_minutes: "gres/gpu=600".to_owned() });
        let vision = ("vision".to_owned(), vec!["ann".to_owned(), "bob".to_owned()]);
        assert_eq!(again.accounts(), [vision, ("speech".to_owned(), vec!["bob".to_owned()])]);
    }

    #[test]
    fn limits_and_members_are_removed() {
        let mut document = LimitsDocument::parse(DOCUMENT).unwrap();
        let ann = Entity::User("ann".to_owned());
        document.set(&ann, "grptres", "gres/gpu=-1").unwrap();
        assert_eq!(document.limits(&ann), Limits::default());
        assert!(document.remove(Some("vision"), Some("ann")));
        assert!(!document.remove(Some("vision"), Some("ann")));
        assert!(document.remove(None, Some("ann")), "her own limits");
        assert!(document.remove(Some("vision"), None));
        assert_eq!((document.accounts(), document.users()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn limits_without_a_counterpart_are_refused() {
        let mut document = LimitsDocument::parse("").unwrap();
        let ann = Entity::User("ann".to_owned());
        for (name, text) in
            [("fairshare", "5"), ("maxjobs", "many"), ("grptres", "mem=5"), ("grptresmins", "cpu=5")]
        {
            assert!(document.set(&ann, name, text).is_err(), "{name}={text}");
        }
        assert!(LimitsDocument::parse("user = [").is_err());
        assert!(LimitsDocument::parse("user = 5").unwrap().set(&ann, "maxjobs", "5").is_err());
    }
}
