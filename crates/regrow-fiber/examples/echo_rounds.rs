//! How many times a second a message goes to an echo server and back: tasks of this crate, of tokio, and threads, each server beside its clients.
//!
//! `cargo run --release --example echo_rounds [CONNECTIONS] [ROUNDS] [TURNS]`

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use regrow_fiber::io::Async;
use regrow_fiber::{JoinHandle, Runtime, spawn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MESSAGE: [u8; 64] = [7; 64];

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Sends back what comes.
fn echo(mut stream: impl Read + Write) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

/// Sends a message so many times, and waits for each to come back.
fn ask(mut stream: impl Read + Write, rounds: usize) -> std::io::Result<()> {
    let mut back = [0; MESSAGE.len()];
    for _ in 0..rounds {
        stream.write_all(&MESSAGE)?;
        stream.read_exact(&mut back)?;
    }
    Ok(())
}

fn per_second(begun: Instant, count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / begun.elapsed().as_secs_f64()
}

fn of_fibers(connections: usize, rounds: usize, workers: usize) -> Result<f64> {
    Runtime::with_workers(workers).run(move || {
        let listener = Async::<TcpListener>::bind(local())?;
        let address = listener.get_ref().local_addr()?;
        let mut streams = Vec::new();
        for _ in 0..connections {
            let client = Async::<TcpStream>::connect(address)?;
            let (server, _) = listener.accept()?;
            client.get_ref().set_nodelay(true)?;
            server.get_ref().set_nodelay(true)?;
            spawn(move || echo(server));
            streams.push(client);
        }
        let begun = Instant::now();
        let clients: Vec<JoinHandle<_>> =
            streams.into_iter().map(|stream| spawn(move || ask(stream, rounds))).collect();
        for client in clients {
            client.join().map_err(|error| error.to_string())??;
        }
        Ok(per_second(begun, connections * rounds))
    })?
}

fn of_tokio(connections: usize, rounds: usize, workers: usize) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_io().build()?;
    // The root is a task too, as everything else.
    let root = runtime.spawn(async move {
        let listener = tokio::net::TcpListener::bind(local()).await?;
        let address = listener.local_addr()?;
        let mut streams = Vec::new();
        for _ in 0..connections {
            let client = tokio::net::TcpStream::connect(address).await?;
            let (mut server, _) = listener.accept().await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = server.read(&mut bytes).await {
                    if server.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
            });
            streams.push(client);
        }
        let begun = Instant::now();
        let clients: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                tokio::spawn(async move {
                    let mut back = [0; MESSAGE.len()];
                    for _ in 0..rounds {
                        stream.write_all(&MESSAGE).await?;
                        stream.read_exact(&mut back).await?;
                    }
                    Ok::<(), std::io::Error>(())
                })
            })
            .collect();
        for client in clients {
            client.await??;
        }
        Ok(per_second(begun, connections * rounds))
    });
    runtime.block_on(root)?
}

fn of_threads(connections: usize, rounds: usize) -> Result<f64> {
    let listener = TcpListener::bind(local())?;
    let address = listener.local_addr()?;
    let mut streams = Vec::new();
    for _ in 0..connections {
        let client = TcpStream::connect(address)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        std::thread::spawn(move || echo(server));
        streams.push(client);
    }
    let begun = Instant::now();
    let clients: Vec<_> =
        streams.into_iter().map(|stream| std::thread::spawn(move || ask(stream, rounds))).collect();
    for client in clients {
        client.join().map_err(|_| "a client has panicked")??;
    }
    Ok(per_second(begun, connections * rounds))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let mut next = |default: usize| arguments.next().unwrap_or(Ok(default));
    let (connections, rounds, turns) = (next(100)?, next(500)?, next(9)?.max(1));
    let mut figures = [const { Vec::new() }; 5];
    for _ in 0..turns {
        figures[0].push(of_fibers(connections, rounds, 1)?);
        figures[1].push(of_tokio(connections, rounds, 1)?);
        figures[2].push(of_fibers(connections, rounds, 2)?);
        figures[3].push(of_tokio(connections, rounds, 2)?);
        figures[4].push(of_threads(connections, rounds)?);
    }
    println!("round trips a second, {connections} connections, {turns} turns: least, median, most");
    let names = ["fibers, 1 worker", "tokio, 1 worker", "fibers, 2 workers", "tokio, 2 workers", "threads"];
    for (name, mut figures) in names.into_iter().zip(figures) {
        figures.sort_unstable_by(f64::total_cmp);
        let [least, median, most] = [0, figures.len() / 2, figures.len() - 1].map(|at| figures[at]);
        println!("{name:20} {least:10.0} {median:10.0} {most:10.0}");
    }
    Ok(())
}
