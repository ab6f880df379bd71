//! The real `highwater serve`, through HTTP/1.1 and server-sent events.
//!
//! Over bare connections: the load shares the cores with the server, so it must be light.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};
use highwater::jobs::EventId;
use highwater_stores::remote::wire::{OpenJob, SetState};
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Peer, TASKS, Watch,
    server::{Program, Server, flag},
};
use crate::Result;

/// The program, next to this one.
pub(crate) fn find() -> Option<Program> {
    let own = std::env::current_exe().ok()?;
    Program::find("highwater", &[own.parent().map(PathBuf::from)?])
}

/// The server and the connections to it that wait for a request.
pub(crate) struct Highwater {
    server: Server,
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

pub(super) fn start<'a>(
    program: &'a Program,
    folder: &'a Path,
) -> LocalBoxFuture<'a, Result<Box<dyn Peer>>> {
    async move {
        let mut store = std::ffi::OsString::from("sqlite:");
        store.push(folder.join("highwater.db"));
        let mut command = program.command();
        command.args(["serve", "--listen=127.0.0.1:0"]).arg(flag("--store", store));
        command.stdout(Stdio::piped());
        let mut server = Server::start(command, folder)?;
        let line = server.first_line()?;
        let address = line.trim_end().strip_prefix("highwater listening on http://");
        let address = address.ok_or_else(|| format!("the first line was {line}"))?.parse()?;
        let highwater = Highwater { server, address, idle: Mutex::default() };
        let job = serde_json::to_vec(&OpenJob { num_tasks: TASKS, tags: None })?;
        highwater.call(Method::PUT, "/v1/jobs/bench", job).await?;
        Ok(Box::new(highwater) as Box<dyn Peer>)
    }
    .boxed_local()
}

#[async_trait]
impl Peer for Highwater {
    fn server(&self) -> &Server {
        &self.server
    }

    async fn put(&self, task: u32, message: String) -> Result<()> {
        #[derive(Deserialize)]
        struct Written {
            applied: bool,
        }

        let state = SetState {
            status: Some(1),
            message,
            // As the library makes them: they rise with time.
            event_id: Some(EventId::unique().to_string()),
            ..SetState::default()
        };
        let path = format!("/v1/jobs/bench/tasks/{task}/tags/t");
        let answer = self.call(Method::PUT, &path, serde_json::to_vec(&state)?).await?;
        let Written { applied } = serde_json::from_slice(&answer)?;
        if applied { Ok(()) } else { Err("a new event id was taken for an old one".into()) }
    }

    async fn watch(&self) -> Result<Watch> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let address = self.address;
        let request = format!("GET /v1/jobs/bench/events HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut events = Events { stream, bytes: BytesMut::new(), text: BytesMut::new() };
        events.read_head().await?;
        while events.next().await?.name != b"snapshot_end"[..] {}
        let messages = stream::try_unfold(events, |mut events| async {
            let message = events.next().await?.message()?;
            Ok(Some((message, events)))
        });
        Ok(messages.boxed())
    }
}

impl Highwater {
    /// One request over a connection that is idle, or a new one; the body of a good answer.
    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes> {
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let request = self.request(method, path, body)?;
        let response = connection.requests.send_request(request).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&answer)).into());
        }
        connection.requests.ready().await?;
        self.idle().push(connection);
        Ok(answer)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> http::Result<Request<Full<Bytes>>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, and the task that moves its bytes.
struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<hyper::Result<()>>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Connection { requests, _driver: AbortOnDropHandle::new(tokio::spawn(driver)) })
    }
}

/// The events of one stream, straight from its connection.
struct Events {
    stream: TcpStream,
    /// As they came, in chunks.
    bytes: BytesMut,
    /// What was in the chunks.
    text: BytesMut,
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    name: Bytes,
    data: Bytes,
}

impl Events {
    async fn read_head(&mut self) -> Result<()> {
        loop {
            self.read().await?;
            let Some(end) = memmem::find(&self.bytes, b"\r\n\r\n") else { continue };
            let head = self.bytes.split_to(end);
            self.bytes.advance(4);
            if head.starts_with(b"HTTP/1.1 200 ") {
                return Ok(());
            }
            return Err(format!("no stream: {}", String::from_utf8_lossy(&head)).into());
        }
    }

    async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = take_event(&mut self.text) {
                return Ok(event);
            }
            match take_chunk(&mut self.bytes)? {
                Some(chunk) => self.text.unsplit(chunk),
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.bytes).await? {
            0 => Err("a subscription ended".into()),
            _ => Ok(()),
        }
    }
}

/// Takes the next chunk that is there as a whole: its length in hexadecimal, a line end, what is in
/// it, a line end.
fn take_chunk(bytes: &mut BytesMut) -> Result<Option<BytesMut>> {
    let Some(begin) = memmem::find(bytes, b"\r\n").map(|end| end + 2) else { return Ok(None) };
    let length = usize::from_str_radix(str::from_utf8(&bytes[..begin - 2])?, 16)?;
    if bytes.len() < begin + length + 2 {
        return Ok(None);
    }
    bytes.advance(begin);
    let chunk = bytes.split_to(length);
    bytes.advance(2);
    Ok(Some(chunk))
}

/// Takes the next event that is there as a whole; comments are dropped on the way.
fn take_event(buffer: &mut BytesMut) -> Option<Event> {
    loop {
        let end = memmem::find(buffer, b"\n\n")?;
        let block = buffer.split_to(end).freeze();
        buffer.advance(2);
        let field = |name: &[u8]| {
            let mut lines = block.split(|byte| *byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name)).map(|value| block.slice_ref(value))
        };
        if let Some((name, data)) = field(b"event: ").zip(field(b"data: ")) {
            return Some(Event { name, data });
        }
    }
}

impl Event {
    /// What the state says that was put.
    fn message(&self) -> Result<Bytes> {
        #[derive(Deserialize)]
        struct State {
            message: String,
        }

        if self.name != b"put"[..] {
            return Err(format!("behind the marker came {self:?}").into());
        }
        Ok(serde_json::from_slice::<State>(&self.data)?.message.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_taken_whole() {
        let mut bytes = BytesMut::from("b\r\nhigh\r\nwater\r\n2\r\nab");
        assert_eq!(take_chunk(&mut bytes).unwrap().unwrap(), "high\r\nwater");
        assert_eq!(take_chunk(&mut bytes).unwrap(), None);
        assert_eq!(bytes, "2\r\nab");
    }

    #[test]
    fn events_are_taken_whole_and_comments_are_skipped() {
        let text = ":\n\nevent: put\nid: 7\ndata: {\"message\":\"a\"}\n\n:\n\neve";
        let mut buffer = BytesMut::from(text);
        let event = take_event(&mut buffer).unwrap();
        assert_eq!(event.message().unwrap(), "a");
        assert_eq!(take_event(&mut buffer), None);
        assert_eq!(buffer, "eve");
    }
}
