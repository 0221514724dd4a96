#![allow(unsafe_code, reason = "x")]
//! Runs a program N times in one body and prints medians.
use regrow_image::make::*;
use regrow_body::*;
use regrow_body::run::StringBlock;
use std::ffi::*;
use std::os::fd::AsFd;
use std::time::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: usize = a[1].parse().unwrap();
    let point = if a[2] == "main" { Point::Main } else { Point::Entry };
    let path = CString::new(a[3].clone()).unwrap();
    let envs: Vec<CString> = std::env::vars().map(|(k, v)| CString::new(format!("{k}={v}")).unwrap()).collect();
    let code = AgentCode::new().unwrap();
    let t = Instant::now();
    let recipe = Recipe { path: &path, argv0: &path, env: envs.iter().map(|e| e.as_c_str()).collect(), point, features: 1|2|4|16|32, hot_zero_pages: 256, bind_now: true };
    let image = match make(&code, &recipe) { Ok(i) => i, Err(e) => { println!("make: {e}"); return } };
    if std::env::var("DBG").is_ok() { for v in &image.vmas { println!("{:x}-{:x} flags {:x} ino {} off {:x}", v.start, v.end, v.flags, v.inode, v.offset); } println!("{}", std::fs::read_to_string(format!("/proc/{}/maps", image.seed().pid())).unwrap()); println!("{:x?} stack {:x}-{:x} rsp {:x}", image.patches, image.stack.floor, image.stack.top, image.header.registers.general[7]); }
    println!("made in {:?}: {} vmas {} pages {} patches learned {:?} deps {:?}", t.elapsed(), image.vmas.len(), image.pages.len(), image.patches.len(), image.learned.iter().map(|l| String::from_utf8_lossy(l).into_owned()).collect::<Vec<_>>(), image.dependencies);
    let t = Instant::now();
    dbg_image(&image);
    let nb: usize = std::env::var("BODIES").map_or(1, |b| b.parse().unwrap());
    let mut bodies: Vec<Body> = (0..nb).map(|_| Body::fork(&image, false).unwrap()).collect();
    println!("fork {:?}", t.elapsed());
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    let out = std::io::stdout();
    let quiet = std::env::var("QUIET").is_ok();
    let mut args = Vec::new();
    for x in &a[3..] { args.extend_from_slice(x.as_bytes()); args.push(0); }
    let mut env = Vec::new();
    for e in &envs { env.extend_from_slice(e.as_bytes_with_nul()); }
    let (mut total, mut tomain, mut reset, mut spawn) = (vec![], vec![], vec![], vec![]);
    let pause = std::env::var("PAUSE").map_or(300, |p| p.parse().unwrap());
    let all = Instant::now();
    for i in 0..n {
        let body = &mut bodies[i % nb];
        let o = if quiet { null.as_fd() } else { out.as_fd() };
        let fds = [(null.as_fd(), 0), (o, 1), (o, 2)];
        let run = Run { args: StringBlock { bytes: &args, count: a.len() - 3 }, env: StringBlock { bytes: &env, count: envs.len() }, fds: &fds, timed: true, near: true, affinity: [3; 16], ..Run::default() };
        if body.wait_ready(Duration::from_secs(1)) != Some(regrow_abi::State::Armed) { println!("run {i}: not armed: {:?} {:?}", body.state(), body.broken()); return; }
        if pause > 0 { std::thread::sleep(Duration::from_micros(pause)); }
        let t0 = now(); let t = Instant::now();
        let p = body.start(&image, &run).unwrap();
        spawn.push(t.elapsed().as_nanos() as f64 / 1e3);
        let mut ru: libc::rusage = unsafe { std::mem::zeroed() }; let mut status = 0; unsafe { libc::wait4(p, &mut status, libc::__WALL, &mut ru); }
        if i + 3 > n { println!("minflt {} utime {} stime {} nvcsw {} nivcsw {}", ru.ru_minflt, ru.ru_utime.tv_usec, ru.ru_stime.tv_usec, ru.ru_nvcsw, ru.ru_nivcsw); }
        total.push(t.elapsed().as_nanos() as f64 / 1e3);
        body.bell().ring();
        if pause > 0 { std::thread::sleep(Duration::from_micros(pause)); }
        let times = body.times();
        tomain.push((times.main_ns as f64 - t0 as f64) / 1e3);
        reset.push((times.armed_ns as f64 - times.left_ns as f64) / 1e3);
        if status != 0 { println!("run {i}: status {status:x}"); if std::env::var("KEEP").is_err() {return;} }
    }
    let el = all.elapsed();
    for v in [&mut total, &mut tomain, &mut reset, &mut spawn] { v.sort_by(f64::total_cmp); }
    println!("total p50 {:.1} p99 {:.1} | main p50 {:.1} p99 {:.1} | reset p50 {:.1} | spawn {:.1} | per run {:.1} | {:?}", total[n/2], total[n*99/100], tomain[n/2], tomain[n*99/100], reset[n/2], spawn[n/2], el.as_secs_f64()*1e6/n as f64, bodies[0].reset_work());
}
fn now() -> u64 { let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic); t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64 }
fn dbg_image(image: &regrow_image::image::Image) { if std::env::var("DBG").is_ok() { for v in &image.vmas { println!("{:x}-{:x} flags {:x} ino {} off {:x}", v.start, v.end, v.flags, v.inode, v.offset); } println!("{}", std::fs::read_to_string(format!("/proc/{}/maps", image.seed().pid())).unwrap()); println!("{:x?} stack {:x}-{:x} rsp {:x}", image.patches, image.stack.floor, image.stack.top, image.header.registers.general[7]); } }
