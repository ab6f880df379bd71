//! A bad network: a TCP proxy on loopback that fails as it is told.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use highwater::clock::{Clock as _, SystemClock};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// What the network does to the connections that there are, and to new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every chunk is late by this much, in each direction.
    Latency(Duration),
    /// All connections are closed; new ones are accepted and closed at once.
    Cut,
    /// The same, but with an RST instead of a goodbye.
    Reset,
    /// Connections stay open and swallow everything, the goodbye of either side included. As in TCP,
    /// one that lost bytes never goes on, whatever comes after.
    HalfOpen,
    /// The next request of each connection gets through. When the first byte of its answer arrives,
    /// the connection is closed instead: the write has landed, the reply is lost.
    CutAfterRequest,
}

/// Stands between clients and a server. Dropping it ends everything.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    orders: watch::Sender<Order>,
    strikes: Arc<AtomicU64>,
    /// One task, and in it those of the connections.
    _acceptor: JoinSet<()>,
}

/// What the connections are told. Numbered, so that a cut is not missed when the next order is quick
/// to follow, and the same fault can be ordered again.
#[derive(Debug, Clone, Copy)]
struct Order {
    number: u64,
    fault: Fault,
    /// The last order that ended all connections, and how.
    severed: (u64, Farewell),
}

#[derive(Debug, Clone, Copy)]
enum Farewell {
    Close,
    Reset,
}

impl Fault {
    /// How it ends connections, if it does.
    fn farewell(self) -> Option<Farewell> {
        match self {
            Fault::Cut => Some(Farewell::Close),
            Fault::Reset => Some(Farewell::Reset),
            Fault::None | Fault::Latency(_) | Fault::HalfOpen | Fault::CutAfterRequest => None,
        }
    }
}

impl Farewell {
    fn say(self, stream: TcpStream) {
        match self {
            Farewell::Close => {}
            Farewell::Reset => stream.set_zero_linger().unwrap(),
        }
        drop(stream);
    }
}

impl FaultProxy {
    /// Listens on a free port, without a fault, and passes everything on to `upstream`.
    pub async fn start(upstream: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let first = Order { number: 0, fault: Fault::None, severed: (0, Farewell::Close) };
        let (orders, receiver) = watch::channel(first);
        let strikes = Arc::default();
        let mut acceptor = JoinSet::new();
        acceptor.spawn(accept(listener, upstream, receiver, Arc::clone(&strikes)));
        FaultProxy { address, orders, strikes, _acceptor: acceptor }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the network does this. A request counts as sent after this only if its bytes are.
    pub fn set(&self, fault: Fault) {
        self.orders.send_modify(|order| {
            order.number += 1;
            order.fault = fault;
            if let Some(farewell) = fault.farewell() {
                order.severed = (order.number, farewell);
            }
        });
    }

    /// How many replies [`Fault::CutAfterRequest`] has lost. Counted before the client can notice.
    pub fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    orders: watch::Receiver<Order>,
    strikes: Arc<AtomicU64>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                let Order { number, fault, .. } = *orders.borrow();
                match fault.farewell() {
                    Some(farewell) => farewell.say(client),
                    None => {
                        let (orders, strikes) = (orders.clone(), Arc::clone(&strikes));
                        let link = Link::new(number, orders, strikes);
                        connections.spawn(link.carry(client, upstream));
                    }
                }
            }
            Some(ended) = connections.join_next() => ended.unwrap(),
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Link {
    /// The number of the order under which it began.
    born: u64,
    orders: watch::Receiver<Order>,
    strikes: Arc<AtomicU64>,
    /// The number of the order under which the client last spoke.
    asked: AtomicU64,
    /// Whether bytes were swallowed.
    is_lost: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

/// What becomes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    Swallowed,
    Struck,
}

impl Link {
    fn new(born: u64, orders: watch::Receiver<Order>, strikes: Arc<AtomicU64>) -> Link {
        Link { born, orders, strikes, asked: AtomicU64::new(0), is_lost: AtomicBool::new(false) }
    }

    async fn carry(self, mut client: TcpStream, upstream: SocketAddr) {
        // A server that is away looks like a cut.
        let Ok(mut server) = TcpStream::connect(upstream).await else { return };
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both_ways = async {
            tokio::try_join!(
                self.pump(Direction::Request, from_client, to_server),
                self.pump(Direction::Answer, from_server, to_client),
            )
        };
        let farewell = tokio::select! {
            // First the order, then the bytes: none passes after a cut.
            biased;
            farewell = self.severed() => farewell,
            // Either side may have gone; the other will notice.
            _ = both_ways => Farewell::Close,
        };
        farewell.say(client);
        farewell.say(server);
    }

    /// Ready once an order ends this connection, or the proxy is gone.
    async fn severed(&self) -> Farewell {
        let mut orders = self.orders.clone();
        let order = orders.wait_for(|order| order.severed.0 > self.born).await;
        order.map_or(Farewell::Close, |order| order.severed.1)
    }

    /// Passes one direction on, chunk by chunk, until its end.
    async fn pump(
        &self,
        direction: Direction,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> io::Result<()> {
        const CHUNK_BYTES: usize = 16 * 1024;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).await;
            let is_end = !matches!(read, Ok(1..));
            self.delay().await;
            match self.fate(direction, is_end) {
                Fate::Passed if is_end => {
                    read?;
                    return to.shutdown().await;
                }
                Fate::Passed => to.write_all(&chunk[..read?]).await?,
                Fate::Swallowed if is_end => std::future::pending().await,
                Fate::Swallowed => {}
                Fate::Struck => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
    }

    /// Waits as long as it is told to, also when it is told otherwise meanwhile.
    async fn delay(&self) {
        let mut orders = self.orders.clone();
        loop {
            let fault = orders.borrow_and_update().fault;
            let Fault::Latency(span) = fault else { return };
            tokio::select! {
                () = SystemClock.sleep(span) => return,
                // Another order: look again. Without a proxy this connection is about to end.
                changed = orders.changed() => if changed.is_err() { return },
            }
        }
    }

    fn fate(&self, direction: Direction, is_end: bool) -> Fate {
        let order = *self.orders.borrow();
        if order.fault == Fault::HalfOpen {
            self.is_lost.store(true, Ordering::SeqCst);
        }
        if self.is_lost.load(Ordering::SeqCst) {
            return Fate::Swallowed;
        }
        match (order.fault, direction) {
            (Fault::CutAfterRequest, Direction::Request) => {
                self.asked.store(order.number, Ordering::SeqCst);
                Fate::Passed
            }
            (Fault::CutAfterRequest, Direction::Answer)
                if !is_end && self.asked.load(Ordering::SeqCst) == order.number =>
            {
                self.strikes.fetch_add(1, Ordering::SeqCst);
                Fate::Struck
            }
            (
                Fault::CutAfterRequest
                | Fault::None
                | Fault::Latency(_)
                | Fault::Cut
                | Fault::Reset
                | Fault::HalfOpen,
                Direction::Request | Direction::Answer,
            ) => Fate::Passed,
        }
    }
}
