//! Submissions that clients may repeat: a client whose connection breaks does not know whether its request was accepted.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Requests that are remembered; the oldest are forgotten first.
const REQUESTS_MAX: usize = 4096;

/// More would be stored for nothing: keys are random words.
const KEY_BYTES_MAX: usize = 64;

/// A text that is no key of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key of a request has at most {KEY_BYTES_MAX} characters, letters and digits only")]
pub(crate) struct InvalidRequestKey;

/// The key of a request, apart from the keys of other users.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RequestKey {
    user: String,
    key: String,
}

impl RequestKey {
    /// None for an empty key.
    ///
    /// # Errors
    /// [`InvalidRequestKey`] where the text is no key.
    pub(crate) fn new(user: &str, key: String) -> Result<Option<Self>, InvalidRequestKey> {
        if key.len() > KEY_BYTES_MAX || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(InvalidRequestKey);
        }
        Ok((!key.is_empty()).then(|| Self { user: user.to_owned(), key }))
    }
}

/// A request that submitted jobs with consecutive ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AcceptedRequest {
    pub(crate) key: RequestKey,
    /// The first job.
    pub(crate) first: u32,
    /// The number of jobs.
    pub(crate) count: u32,
}

/// The latest requests with keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<AcceptedRequest>", into = "Vec<AcceptedRequest>")]
pub(crate) struct AcceptedRequests {
    jobs: BTreeMap<RequestKey, (u32, u32)>,
    /// The oldest first.
    order: VecDeque<RequestKey>,
}

impl AcceptedRequests {
    pub(crate) fn add(&mut self, request: AcceptedRequest) {
        let AcceptedRequest { key, first, count } = request;
        if self.jobs.insert(key.clone(), (first, count)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REQUESTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.jobs.remove(&oldest);
        }
    }

    /// The ids of the jobs that a request submitted.
    pub(crate) fn jobs_of(&self, key: &RequestKey) -> Option<Vec<u32>> {
        self.jobs.get(key).map(|&(first, count)| (first..first.saturating_add(count)).collect())
    }
}

impl From<Vec<AcceptedRequest>> for AcceptedRequests {
    fn from(requests: Vec<AcceptedRequest>) -> Self {
        let mut accepted = Self::default();
        requests.into_iter().for_each(|request| accepted.add(request));
        accepted
    }
}

impl From<AcceptedRequests> for Vec<AcceptedRequest> {
    fn from(accepted: AcceptedRequests) -> Self {
        let AcceptedRequests { jobs, order } = accepted;
        let request = |key: RequestKey| {
            let &(first, count) = jobs.get(&key)?;
            Some(AcceptedRequest { key, first, count })
        };
        order.into_iter().filter_map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str, key: &str) -> RequestKey {
        RequestKey::new(user, key.to_owned()).unwrap().unwrap()
    }

    #[test]
    fn repeated_key_of_the_same_user_finds_its_jobs() {
        let mut accepted = AcceptedRequests::default();
        accepted.add(AcceptedRequest { key: key("ann", "k1"), first: 7, count: 3 });
        assert_eq!(accepted.jobs_of(&key("ann", "k1")), Some(vec![7, 8, 9]));
        assert_eq!(accepted.jobs_of(&key("bob", "k1")), None, "keys of other users are theirs");
        let text = serde_json::to_string(&accepted).unwrap();
        assert_eq!(serde_json::from_str::<AcceptedRequests>(&text).unwrap(), accepted);
    }

    #[test]
    fn oldest_requests_are_forgotten_first() {
        let mut accepted = AcceptedRequests::default();
        for index in 0..REQUESTS_MAX as u32 + 2 {
            accepted.add(AcceptedRequest { key: key("ann", &format!("k{index}")), first: index, count: 1 });
        }
        assert_eq!((accepted.jobs.len(), accepted.order.len()), (REQUESTS_MAX, REQUESTS_MAX));
        assert_eq!(accepted.jobs_of(&key("ann", "k1")), None);
        assert_eq!(accepted.jobs_of(&key("ann", "k2")), Some(vec![2]));
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        assert_eq!(RequestKey::new("ann", String::new()), Ok(None));
        for bad in ["a b".to_owned(), "\u{1b}".to_owned(), "x".repeat(KEY_BYTES_MAX + 1)] {
            assert!(RequestKey::new("ann", bad).is_err());
        }
    }
}
