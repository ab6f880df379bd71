//! Jobs on another server: every method is one request, and the rules are asked over there.

use std::sync::Arc;

use async_trait::async_trait;
use highwater::{
    Error, ErrorKind, Result,
    feed::{Follow, Seq},
    jobs::{
        Created, Deleted, Deletion, Epoch, Filter, FollowRequest, Job, JobId, JobRef, JobStore,
        Life, ListJobs, Payload, Reading, Report, Shown, Tag, TaskCount, TaskIndex, Write, Writer,
        Written,
    },
};
use reqwest::{Method, RequestBuilder};
use serde_json::value::RawValue;

use super::{
    RemoteStore,
    sse::{Listener, Topic},
    wire,
};

#[async_trait]
impl JobStore for RemoteStore {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        let tags = tags.map(|tags| tags.iter().map(Tag::to_string).collect());
        let request = self.http.request(Method::PUT, &["jobs", id.as_str()]);
        let request = request.json(&wire::OpenJob { num_tasks: num_tasks.get(), tags });
        let opened: wire::OpenedJob = self.http.answer("open a job", request).await?;
        Ok((opened.job, if opened.created { Created::New } else { Created::Existing }))
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        self.http.answer("look up a job", self.request(Method::GET, job, &[])).await
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        let request = self.request(Method::POST, job, &["tasks", &task.to_string(), "open"]);
        let taken: wire::TakenOver = self.http.answer("take over a task", request).await?;
        Ok(taken.epoch)
    }

    async fn set(&self, write: Write) -> Result<Written> {
        let (task, tag) = (write.task.to_string(), write.tag.as_str());
        let request = self.request(Method::PUT, &write.job, &["tasks", &task, "tags", tag]);
        let request = request.json(&state(&write)?);
        let written: wire::WrittenState = self.http.answer("set a state", request).await?;
        Ok(written.into())
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        let request = self.request(Method::GET, job, &["states"]).query(&selection(filter));
        let request = match at_least {
            Seq::ZERO => request,
            Seq(revision) => request.query(&[("min_revision", revision)]),
        };
        let states: wire::States = self.http.answer("read the states of a job", request).await?;
        Ok(states.into())
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        let ListJobs { prefix, shown, after, limit } = query;
        let shown = match shown {
            Shown::Alive => "alive",
            Shown::Tombstoned => "tombstoned",
            Shown::All => "all",
        };
        let request = self.http.request(Method::GET, &["jobs"]);
        let request = request.query(&[("prefix", prefix.as_str()), ("shown", shown)]);
        let request = request.query(&[("after", after.as_ref().map(JobId::as_str))]);
        let request = request.query(&[("limit", limit)]);
        let page: wire::JobsPage = self.http.answer("list jobs", request).await?;
        Ok(page.jobs)
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        let request = self.request(Method::DELETE, job, &[]);
        let request = match how {
            Deletion::Tombstone => request.query(&[("tombstone", true)]),
            Deletion::Erase => request,
        };
        let deleted: wire::DeletedJob = self.http.answer("delete a job", request).await?;
        Ok(deleted.into())
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        let FollowRequest { filter, start, patience } = request;
        let topic = Topic {
            operation: "follow a job",
            path: vec!["jobs".to_owned(), job.id.to_string(), "events".to_owned()],
            query: selection(&filter),
            life: Some(job.life),
        };
        Listener::follow(Arc::clone(&self.http), topic, start, patience).await
    }
}

impl RemoteStore {
    /// A request about one job, or about what lies `below` it.
    fn request(&self, method: Method, job: &JobRef, below: &[&str]) -> RequestBuilder {
        let path = [&["jobs", job.id.as_str()], below].concat();
        let request = self.http.request(method, &path);
        match job.life {
            Life::Current => request,
            Life::Exactly(incarnation) => request.query(&[("incarnation", incarnation.0)]),
        }
    }
}

fn selection(filter: &Filter) -> Vec<(&'static str, String)> {
    let task = filter.task.map(|task| ("task", task.to_string()));
    let tag = filter.tag.as_ref().map(|tag| ("tag", tag.to_string()));
    task.into_iter().chain(tag).collect()
}

fn state(write: &Write) -> Result<wire::SetState> {
    let raw = |payload: &Payload| {
        RawValue::from_string(payload.as_str().to_owned()).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the payload is no JSON").with_source(error)
        })
    };
    Ok(wire::SetState {
        status: Some(write.status.0),
        message: write.message.clone(),
        payload: write.payload.as_ref().map(raw).transpose()?,
        event_id: Some(write.event_id.to_string()),
        schema_version: Some(write.schema_version),
        epoch: match write.writer {
            Writer::Fenced(epoch) => Some(epoch.0),
            Writer::Anonymous => None,
        },
        ..wire::SetState::default()
    })
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
