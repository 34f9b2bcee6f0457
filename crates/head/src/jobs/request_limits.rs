//! Caps on what one request, and one user, can ask of the head.

/// Caps that keep one user from taking the head away from the others. Each is named in the error that it causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Jobs that one request may submit or change; array elements and dependency edges count as jobs.
    pub request_jobs: u32,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Live jobs of one user, and dependencies of them on single jobs.
    pub user_jobs: u32,
    /// Requests and messages of workers that wait for the dispatcher.
    pub queue: usize,
    /// The highest priority that a user may give to a job.
    pub user_priority: i32,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            request_jobs: 100_000,
            request_bytes: 4 << 20,
            user_jobs: 1_000_000,
            queue: 10_000,
            user_priority: 0,
        }
    }
}

/// More than a cap allows. Each names the cap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CapError {
    #[error(
        "the request has {count} {what}, more than the {cap} of the head's cap max_request_jobs; split it"
    )]
    Request { count: u64, what: &'static str, cap: u32 },
    #[error("user {user} would have {count} live jobs, more than the {cap} of the head's cap max_user_jobs")]
    UserJobs { user: String, count: u64, cap: u32 },
    #[error(
        "jobs of user {user} would have {count} dependencies on single jobs, more than the {cap} of the head's cap max_user_jobs"
    )]
    UserDependencies { user: String, count: u64, cap: u32 },
}

impl Caps {
    /// Checks the number of jobs that one request touches.
    ///
    /// # Errors
    /// Names what is too much, the cap, and the option that raises it.
    pub(crate) fn check_request_jobs(&self, count: u64, what: &'static str) -> Result<(), CapError> {
        if count <= u64::from(self.request_jobs) {
            return Ok(());
        }
        Err(CapError::Request { count, what, cap: self.request_jobs })
    }

    /// Checks the number of live jobs that a user would have.
    ///
    /// # Errors
    /// Names the cap.
    pub(crate) fn check_user_jobs(&self, user: &str, count: u64) -> Result<(), CapError> {
        if count <= u64::from(self.user_jobs) {
            return Ok(());
        }
        Err(CapError::UserJobs { user: user.to_owned(), count, cap: self.user_jobs })
    }

    /// Checks the number of dependencies on single jobs that a user would have.
    ///
    /// # Errors
    /// Names the cap.
    pub(crate) fn check_user_edges(&self, user: &str, count: u64) -> Result<(), CapError> {
        if count <= u64::from(self.user_jobs) {
            return Ok(());
        }
        Err(CapError::UserDependencies { user: user.to_owned(), count, cap: self.user_jobs })
    }
}
