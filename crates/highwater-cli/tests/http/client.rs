//! What a client sends and receives: JSON, server-sent events, and bytes that no client would send.

use std::{
    fmt::{self, Write as _},
    io,
    net::SocketAddr,
    time::Duration,
};

use reqwest::{Method, RequestBuilder, Response, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::within;

/// One server's client.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    root: String,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Client {
    /// A connection per request: none that the server is about to close for its idleness.
    pub(crate) fn new(address: SocketAddr) -> Client {
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        Client { http, root: format!("http://{address}") }
    }

    /// One that keeps its connections, for those who are never idle.
    pub(crate) fn pooled(address: SocketAddr) -> Client {
        Client { http: reqwest::Client::new(), root: format!("http://{address}") }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.root))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn put(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.request(Method::PUT, path).body(body)).await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::POST, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    /// A job that must come to be.
    pub(crate) async fn create(&self, job: &str, num_tasks: u32) -> Value {
        let body = json!({"num_tasks": num_tasks}).to_string();
        self.put(&format!("/v1/jobs/{}", segment(job)), body).await.json(201)
    }

    /// A state that must be taken.
    pub(crate) async fn set(&self, job: &str, task: u32, tag: &str, body: &Value) -> Value {
        self.put(&state_path(job, task, tag), body.to_string()).await.json(200)
    }

    /// A stream that must begin.
    pub(crate) async fn events(&self, path: &str) -> Events {
        Events::of(self.request(Method::GET, path)).await
    }

    /// A stream that goes on behind a token, as a browser asks for it.
    pub(crate) async fn events_after(&self, path: &str, token: &str) -> Events {
        Events::of(self.request(Method::GET, path).header("last-event-id", token)).await
    }
}

/// A name as a segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            segment.push(char::from(byte));
        } else {
            write!(segment, "%{byte:02X}").unwrap();
        }
    }
    segment
}

pub(crate) fn state_path(job: &str, task: u32, tag: &str) -> String {
    format!("/v1/jobs/{}/tasks/{task}/tags/{}", segment(job), segment(tag))
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:.400}", self.status, self.content_type, self.body)
    }
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Answer {
        let response = within(request.send()).await.unwrap();
        let status = response.status().as_u16();
        let content_type = content_type(&response);
        let body = within(response.text()).await.unwrap();
        Answer { status, content_type, body }
    }

    /// The JSON of an answer that must have this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/json", "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// The problem that it must be, about `field`. Nothing was applied.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, field: Option<&str>) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        let problem: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem.get("field").and_then(Value::as_str), field, "{problem}");
        assert_eq!(problem["outcome"], "not_applied", "{problem}");
        for words in ["type", "title", "detail"] {
            assert!(problem[words].as_str().is_some_and(|words| !words.is_empty()), "{problem}");
        }
        problem
    }
}

fn content_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE);
    header.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// A stream of server-sent events.
pub(crate) struct Events {
    response: Response,
    /// What has come of an event that is not complete.
    rest: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// Resumes behind it.
    pub(crate) token: Option<String>,
    pub(crate) data: Value,
}

impl Events {
    pub(crate) async fn of(request: RequestBuilder) -> Events {
        let response = within(request.send()).await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(content_type(&response), "text/event-stream");
        Events::new(response)
    }

    pub(crate) fn new(response: Response) -> Events {
        Events { response, rest: Vec::new() }
    }

    /// The next event; `None` when the stream has ended as it should.
    pub(crate) async fn try_next(&mut self) -> reqwest::Result<Option<Event>> {
        let mut searched = 0;
        loop {
            let end = self.rest[searched..].windows(2).position(|bytes| bytes == b"\n\n");
            if let Some(end) = end {
                let block: Vec<u8> = self.rest.drain(..searched + end + 2).collect();
                searched = 0;
                match Event::parse(&String::from_utf8(block).unwrap()) {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            searched = self.rest.len().saturating_sub(1);
            match self.response.chunk().await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next event, which must come.
    pub(crate) async fn next(&mut self) -> Event {
        within(self.try_next()).await.unwrap().expect("the stream has ended")
    }

    /// The next event, which must have this name.
    pub(crate) async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// Sees to it that the stream is over.
    pub(crate) async fn expect_nothing_more(&mut self) {
        let event = within(self.try_next()).await.unwrap();
        assert!(event.is_none(), "{event:?}");
    }
}

impl Event {
    /// One block; `None` for a heartbeat.
    fn parse(block: &str) -> Option<Event> {
        let field = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
            let value = lines.next().map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
            assert_eq!(lines.next(), None, "two lines `{name}` in {block}");
            value.map(str::to_owned)
        };
        if block.lines().all(|line| line.is_empty() || line.starts_with(':')) {
            return None;
        }
        let (name, token, data) = (field("event:"), field("id:"), field("data:"));
        let data = serde_json::from_str(&data.expect("an event without data")).unwrap();
        Some(Event { name: name.expect("an event without a name"), token, data })
    }

    pub(crate) fn revision(&self) -> u64 {
        self.data["revision"].as_u64().unwrap_or_else(|| panic!("{self:?}"))
    }

    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// A connection for bytes that no HTTP library would send.
pub(crate) struct Raw(BufReader<TcpStream>);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Raw {
        Raw(BufReader::new(within(TcpStream::connect(address)).await.unwrap()))
    }

    /// The answer to one request, after which the server must close.
    pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
        let mut raw = Raw::connect(address).await;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        raw.send(&head).await.unwrap();
        raw.send(body).await.unwrap();
        raw.answer().await.expect("the server closed without an answer")
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        within(self.0.write_all(bytes.as_ref())).await
    }

    /// Says that nothing more will be sent, and listens on.
    pub(crate) async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads up to this text, which must come; what is behind it stays for later.
    pub(crate) async fn receive_until(&mut self, text: &str) {
        let mut tail = Vec::new();
        while !tail.ends_with(text.as_bytes()) {
            tail.push(within(self.0.read_u8()).await.unwrap());
        }
    }

    /// Sees to it that nothing comes for a while.
    pub(crate) async fn hears_nothing(&mut self) {
        let heard = tokio::time::timeout(Duration::from_millis(200), self.0.read_u8()).await;
        assert!(heard.is_err(), "{heard:?}");
    }

    /// Everything up to the server's goodbye; a reset is one too.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = within(self.0.read_to_end(&mut bytes)).await;
        bytes
    }

    /// The answer that came before the server closed, if one did.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let text = String::from_utf8(self.rest().await).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        let content_type = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map(|(_, value)| value.to_owned()).unwrap_or_default();
        Some(Answer { status, content_type, body: body.to_owned() })
    }
}
