//! The bad network does each of its faults, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking, its helpers included")]

use std::{
    io,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use highwater_testkit::proxy::{Fault, FaultProxy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// Nothing here takes this long, unless it hangs.
const HANGS: Duration = Duration::from_secs(10);

/// How long silence must last to be taken for silence.
const SILENCE: Duration = Duration::from_millis(100);

/// A server that echoes everything, behind a bad network.
struct Bed {
    proxy: FaultProxy,
    /// How many bytes the server has received, over all connections.
    received: watch::Receiver<usize>,
    /// How many connections the server has.
    connected: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

impl Bed {
    async fn new() -> Bed {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
        let (received_sender, received) = watch::channel(0);
        let (connected_sender, connected) = watch::channel(0);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connected_sender.send_modify(|connected| *connected += 1);
                let (received, connected) = (received_sender.clone(), connected_sender.clone());
                connections.spawn(async move {
                    let _ = echo(stream, received).await;
                    connected.send_modify(|connected| *connected -= 1);
                });
            }
        });
        Bed { proxy, received, connected, _server: server }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.proxy.address()).await.unwrap())
    }

    /// A connection that has carried something.
    async fn connected(&self) -> Client {
        let mut client = self.connect().await;
        client.round_trip("hello").await;
        client
    }

    async fn server_has_connections(&mut self, count: usize) {
        let waited = self.connected.wait_for(|connected| *connected == count);
        timeout(HANGS, waited).await.unwrap().unwrap();
    }
}

async fn echo(mut stream: TcpStream, received: watch::Sender<usize>) -> io::Result<()> {
    let mut chunk = vec![0; 1_024];
    loop {
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            count => {
                received.send_modify(|received| *received += count);
                stream.write_all(&chunk[..count]).await?;
            }
        }
    }
}

struct Client(TcpStream);

impl Client {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn receive(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        timeout(HANGS, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(bytes, text.as_bytes());
    }

    async fn round_trip(&mut self, text: &str) {
        self.send(text).await;
        self.receive(text).await;
    }

    /// How the connection ended, which it must have done without another byte.
    async fn end(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let ended = timeout(HANGS, self.0.read_to_end(&mut bytes)).await.unwrap();
        assert!(bytes.is_empty(), "{} bytes came through", bytes.len());
        ended.map(drop)
    }

    async fn hears_nothing(&mut self) {
        let heard = timeout(SILENCE, self.0.read_u8()).await;
        assert!(heard.is_err(), "{heard:?}");
    }
}

#[tokio::test]
async fn without_a_fault_everything_passes_up_to_the_goodbye() {
    let mut bed = Bed::new().await;
    let mut client = bed.connected().await;
    let large = "x".repeat(1_000_000);
    let (mut reader, mut writer) = client.0.split();
    let mut echoed = Vec::new();
    let both = async {
        tokio::join!(
            async {
                writer.write_all(large.as_bytes()).await.unwrap();
                writer.shutdown().await.unwrap();
            },
            async { reader.read_to_end(&mut echoed).await.unwrap() }
        )
    };
    timeout(HANGS, both).await.unwrap();
    assert!(echoed == large.as_bytes(), "{} bytes came back", echoed.len());
    bed.server_has_connections(0).await;
}

#[tokio::test]
async fn latency_delays_each_direction() {
    const LATENCY: Duration = Duration::from_millis(50);
    let bed = Bed::new().await;
    let mut client = bed.connected().await;
    bed.proxy.set(Fault::Latency(LATENCY));
    let begun = Instant::now();
    client.round_trip("late").await;
    assert!(begun.elapsed() >= 2 * LATENCY, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn bytes_under_way_go_on_when_the_latency_is_lifted() {
    let bed = Bed::new().await;
    let mut client = bed.connected().await;
    bed.proxy.set(Fault::Latency(Duration::from_hours(1)));
    client.send("late").await;
    client.hears_nothing().await;
    bed.proxy.set(Fault::None);
    client.receive("late").await;
}

#[tokio::test]
async fn a_cut_closes_connections_and_turns_new_ones_away() {
    let mut bed = Bed::new().await;
    let (mut one, mut other) = (bed.connected().await, bed.connected().await);
    bed.proxy.set(Fault::Cut);
    one.end().await.unwrap();
    other.end().await.unwrap();
    bed.server_has_connections(0).await;
    bed.connect().await.end().await.unwrap();
    bed.proxy.set(Fault::None);
    bed.connected().await;
}

#[tokio::test]
async fn a_cut_that_is_over_at_once_is_a_cut() {
    let bed = Bed::new().await;
    let mut client = bed.connected().await;
    bed.proxy.set(Fault::Cut);
    bed.proxy.set(Fault::None);
    client.end().await.unwrap();
    bed.connected().await;
}

#[tokio::test]
async fn a_reset_says_no_goodbye() {
    let mut bed = Bed::new().await;
    let mut client = bed.connected().await;
    bed.proxy.set(Fault::Reset);
    assert_eq!(client.end().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    bed.server_has_connections(0).await;
    assert_eq!(bed.connect().await.end().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    bed.proxy.set(Fault::None);
    bed.connected().await;
}

#[tokio::test]
async fn half_open_connections_swallow_everything_and_stay() {
    let mut bed = Bed::new().await;
    let (mut old, mut idle) = (bed.connected().await, bed.connected().await);
    bed.proxy.set(Fault::HalfOpen);
    let mut new = bed.connect().await;
    for client in [&mut old, &mut new] {
        client.send("lost").await;
        client.hears_nothing().await;
    }
    bed.proxy.set(Fault::None);
    for client in [&mut old, &mut new] {
        client.send("a stream with a hole does not go on").await;
        client.hears_nothing().await;
    }
    idle.round_trip("nothing was lost here").await;
    let sent = 2 * "hello".len() + "nothing was lost here".len();
    assert_eq!(*bed.received.borrow(), sent);
    // The server does not learn that the client is gone.
    drop(old);
    drop(idle);
    bed.server_has_connections(2).await;
    bed.proxy.set(Fault::Cut);
    bed.server_has_connections(0).await;
}

#[tokio::test]
async fn a_lost_reply_is_lost_after_the_request_has_landed() {
    let bed = Bed::new().await;
    let mut old = bed.connected().await;
    bed.proxy.set(Fault::CutAfterRequest);
    let mut new = bed.connect().await;
    for (strike, client) in [(1, &mut old), (2, &mut new)] {
        client.send("landed").await;
        client.end().await.unwrap();
        assert_eq!(bed.proxy.strikes(), strike);
    }
    assert_eq!(*bed.received.borrow(), "hello".len() + 2 * "landed".len());
    bed.proxy.set(Fault::None);
    bed.connected().await;
    assert_eq!(bed.proxy.strikes(), 2);
}

#[tokio::test]
async fn an_answer_to_an_earlier_request_is_not_lost() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
    let mut client = Client(TcpStream::connect(proxy.address()).await.unwrap());
    let mut server = Client(listener.accept().await.unwrap().0);
    client.send("earlier").await;
    server.receive("earlier").await;
    proxy.set(Fault::CutAfterRequest);
    server.send("answer").await;
    client.receive("answer").await;
    assert_eq!(proxy.strikes(), 0);
    client.send("next").await;
    server.receive("next").await;
    server.send("answer").await;
    client.end().await.unwrap();
    assert_eq!(proxy.strikes(), 1);
}

#[tokio::test]
async fn dropping_the_proxy_ends_everything() {
    let bed = Bed::new().await;
    let mut client = bed.connected().await;
    let Bed { proxy, mut connected, _server, .. } = bed;
    let address = proxy.address();
    drop(proxy);
    client.end().await.unwrap();
    timeout(HANGS, connected.wait_for(|connected| *connected == 0)).await.unwrap().unwrap();
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}
