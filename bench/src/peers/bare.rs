//! The floor of the machine: a server that keeps nothing and only passes messages on, over bare TCP,
//! with a connection per watcher. It is this program again, as a child.

use std::{net::SocketAddr, path::Path, process::Stdio, sync::Arc};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Mutex, broadcast},
    task::JoinSet,
};

use super::{
    Peer, Watch,
    server::{Program, Server},
};
use crate::{Result, fixture::STATE_BYTES};

/// The subcommand that is the server.
pub(crate) const COMMAND: &str = "pass-on";

const QUEUE_MESSAGES_MAX: usize = 1_024;
const WATCH: u8 = b'w';
const PUT: u8 = b'p';

type Message = [u8; STATE_BYTES];

/// Listens, says where, and passes every message on to all who watch.
pub(crate) async fn pass_on() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (messages, _) = broadcast::channel(QUEUE_MESSAGES_MAX);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(serve(stream, messages.clone()));
    }
}

async fn serve(mut stream: TcpStream, messages: broadcast::Sender<Arc<Message>>) -> Result<()> {
    if stream.read_u8().await? == WATCH {
        let mut received = messages.subscribe();
        stream.write_u8(WATCH).await?;
        loop {
            stream.write_all(&*received.recv().await?).await?;
        }
    }
    loop {
        let mut message = [0; STATE_BYTES];
        stream.read_exact(&mut message).await?;
        // Nobody may be watching.
        let _ = messages.send(Arc::new(message));
        stream.write_u8(PUT).await?;
    }
}

struct Bare {
    server: Server,
    address: SocketAddr,
    /// The connection for puts, one after the other: each is answered at once.
    puts: Mutex<TcpStream>,
}

pub(super) fn start<'a>(
    program: &'a Program,
    folder: &'a Path,
) -> LocalBoxFuture<'a, Result<Box<dyn Peer>>> {
    async move {
        let mut command = program.command();
        command.arg(COMMAND).stdout(Stdio::piped());
        let mut server = Server::start(command, folder)?;
        let address = server.first_line()?.trim_end().parse()?;
        let puts = Mutex::new(connect(address, PUT).await?);
        Ok(Box::new(Bare { server, address, puts }) as Box<dyn Peer>)
    }
    .boxed_local()
}

async fn connect(address: SocketAddr, purpose: u8) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_u8(purpose).await?;
    Ok(stream)
}

#[async_trait]
impl Peer for Bare {
    fn server(&self) -> &Server {
        &self.server
    }

    async fn put(&self, _: u32, message: String) -> Result<()> {
        let mut puts = self.puts.lock().await;
        puts.write_all(message.as_bytes()).await?;
        puts.read_u8().await?;
        Ok(())
    }

    async fn watch(&self) -> Result<Watch> {
        let mut stream = connect(self.address, WATCH).await?;
        stream.read_u8().await?;
        let messages =
            stream::try_unfold((stream, BytesMut::new()), |(mut stream, mut buffer)| async {
                while buffer.len() < STATE_BYTES {
                    if stream.read_buf(&mut buffer).await? == 0 {
                        return Err("the bare server closed a connection".into());
                    }
                }
                let message: Bytes = buffer.split_to(STATE_BYTES).freeze();
                Ok(Some((message, (stream, buffer))))
            });
        Ok(messages.boxed())
    }
}
