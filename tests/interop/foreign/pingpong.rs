// A program in Rust that calls the functions of libibverbs, as bindings do: the structures are declared here,
// and the functions of the data path, which verbs.h has as inline ones, are those that the context names.
// Two queue pairs of one HCA send each other datagrams from several threads. Prints "N messages" at its end.
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::{mem, ptr, slice, thread};

const PAIRS: u8 = 4;
const MESSAGES: usize = 250;
const SIZE: usize = 1024;
const GRH: usize = 40;
const QKEY: u32 = 0x1111_1111;

#[repr(C)]
struct Ops {
    before: [*mut c_void; 11], // functions of the ABI before 1.1, and those for memory windows
    poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    between: [*mut c_void; 13],
    post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    after: [*mut c_void; 5],
}

#[repr(C)]
struct Context {
    device: *mut c_void,
    ops: Ops,
}

#[repr(C)]
struct Cq {
    context: *mut Context,
}

#[repr(C)]
struct Qp {
    context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut c_void,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: *mut c_void,
    handle: u32,
    qp_num: u32,
}

#[repr(C)]
struct Mr {
    context: *mut Context,
    pd: *mut c_void,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    lkey: u32,
    rkey: u32,
}

#[repr(C)]
struct Wc {
    wr_id: u64,
    status: c_int,
    opcode: c_int,
    vendor_err: u32,
    byte_len: u32,
    imm_data: u32,
    qp_num: u32,
    src_qp: u32,
    wc_flags: c_uint,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}

#[repr(C)]
struct Sge {
    addr: u64,
    length: u32,
    lkey: u32,
}

#[repr(C)]
struct SendWr {
    wr_id: u64,
    next: *mut SendWr,
    sg_list: *mut Sge,
    num_sge: c_int,
    opcode: c_int,
    send_flags: c_uint,
    imm_data: u32,
    ah: *mut c_void, // the union of the operations begins here
    remote_qpn: u32,
    remote_qkey: u32,
    rest: [u64; 8],
}

#[repr(C)]
struct RecvWr {
    wr_id: u64,
    next: *mut RecvWr,
    sg_list: *mut Sge,
    num_sge: c_int,
}

#[repr(C)]
struct QpInit {
    qp_context: *mut c_void,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: *mut c_void,
    max_send_wr: u32,
    max_recv_wr: u32,
    max_send_sge: u32,
    max_recv_sge: u32,
    max_inline_data: u32,
    qp_type: c_int,
    sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct AhAttr {
    grh: [u64; 3],
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
}

#[repr(C)]
struct QpAttr {
    qp_state: c_int,
    cur_qp_state: c_int,
    path_mtu: c_int,
    path_mig_state: c_int,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: c_uint,
    cap: [u32; 5],
    ah_attr: AhAttr,
    alt_ah_attr: AhAttr,
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    rate_limit: u32,
}

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut Context;
    fn ibv_close_device(context: *mut Context) -> c_int;
    fn ibv_query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int;
    fn ibv_alloc_pd(context: *mut Context) -> *mut c_void;
    fn ibv_dealloc_pd(pd: *mut c_void) -> c_int;
    fn ibv_reg_mr(pd: *mut c_void, at: *mut c_void, size: usize, access: c_int) -> *mut Mr;
    fn ibv_dereg_mr(mr: *mut Mr) -> c_int;
    fn ibv_create_cq(context: *mut Context, cqe: c_int, data: *mut c_void, channel: *mut c_void, vector: c_int) -> *mut Cq;
    fn ibv_destroy_cq(cq: *mut Cq) -> c_int;
    fn ibv_create_qp(pd: *mut c_void, init: *mut QpInit) -> *mut Qp;
    fn ibv_modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int;
    fn ibv_destroy_qp(qp: *mut Qp) -> c_int;
    fn ibv_create_ah(pd: *mut c_void, attr: *mut AhAttr) -> *mut c_void;
    fn ibv_destroy_ah(ah: *mut c_void) -> c_int;
}

/// What ibv_query_port() fills that is no macro: the structure of version 1.1, which ends before link_layer.
#[repr(C)]
struct PortAttr {
    state: c_int,
    max_mtu: c_int,
    active_mtu: c_int,
    gid_tbl_len: c_int,
    port_cap_flags: u32,
    max_msg_sz: u32,
    bad_pkey_cntr: u32,
    qkey_viol_cntr: u32,
    pkey_tbl_len: u16,
    lid: u16,
    rest: [u8; 28],
}

const STATE: c_int = 1;
const PKEY_INDEX: c_int = 1 << 4;
const PORT: c_int = 1 << 5;
const QKEY_MASK: c_int = 1 << 6;
const SQ_PSN: c_int = 1 << 16;
const UD: c_int = 4;
const SEND: c_int = 2;
const SIGNALED: c_uint = 2;
const LOCAL_WRITE: c_int = 1;

/// What threads share; libibverbs lets them.
#[derive(Clone, Copy)]
struct Shared {
    context: *mut Context,
    pd: *mut c_void,
    lid: u16,
}
unsafe impl Send for Shared {}

struct Side {
    cq: *mut Cq,
    qp: *mut Qp,
    mr: *mut Mr,
    memory: Vec<u8>,
}

impl Side {
    unsafe fn new(shared: Shared) -> Side {
        let mut memory = vec![0u8; GRH + SIZE];
        let mr = ibv_reg_mr(shared.pd, memory.as_mut_ptr() as *mut c_void, memory.len(), LOCAL_WRITE);
        assert!(!mr.is_null());
        let cq = ibv_create_cq(shared.context, 32, ptr::null_mut(), ptr::null_mut(), 0);
        assert!(!cq.is_null());
        let mut init: QpInit = mem::zeroed();
        init.send_cq = cq;
        init.recv_cq = cq;
        init.max_send_wr = 16;
        init.max_recv_wr = 16;
        init.max_send_sge = 1;
        init.max_recv_sge = 1;
        init.qp_type = UD;
        let qp = ibv_create_qp(shared.pd, &mut init);
        assert!(!qp.is_null());
        let mut attr: QpAttr = mem::zeroed();
        attr.qkey = QKEY;
        attr.port_num = 1;
        for (state, mask) in [(1, PKEY_INDEX | PORT | QKEY_MASK), (2, 0), (3, SQ_PSN)] {
            attr.qp_state = state;
            assert_eq!(ibv_modify_qp(qp, &mut attr, STATE | mask), 0);
        }
        Side { cq, qp, mr, memory }
    }

    unsafe fn wait(&self) -> u32 {
        let mut wc: Wc = mem::zeroed();
        loop {
            let found = ((*(*self.cq).context).ops.poll_cq)(self.cq, 1, &mut wc);
            assert!(found >= 0);
            if found == 1 {
                assert_eq!(wc.status, 0);
                return wc.byte_len;
            }
        }
    }

    unsafe fn release(self) {
        assert_eq!(ibv_destroy_qp(self.qp), 0);
        assert_eq!(ibv_destroy_cq(self.cq), 0);
        assert_eq!(ibv_dereg_mr(self.mr), 0);
    }
}

unsafe fn exchange(ah: *mut c_void, from: &mut Side, to: &mut Side, seed: u8) {
    for number in 0..MESSAGES {
        for (at, byte) in from.memory[GRH..].iter_mut().enumerate() {
            *byte = (at * 7 + number) as u8 ^ seed;
        }
        let mut place = Sge { addr: to.memory.as_ptr() as u64, length: (GRH + SIZE) as u32, lkey: (*to.mr).lkey };
        let mut receive = RecvWr { wr_id: 1, next: ptr::null_mut(), sg_list: &mut place, num_sge: 1 };
        let mut bad_receive = ptr::null_mut();
        assert_eq!(((*(*to.qp).context).ops.post_recv)(to.qp, &mut receive, &mut bad_receive), 0);
        let mut piece = Sge { addr: from.memory[GRH..].as_ptr() as u64, length: SIZE as u32, lkey: (*from.mr).lkey };
        let mut send: SendWr = mem::zeroed();
        send.sg_list = &mut piece;
        send.num_sge = 1;
        send.opcode = SEND;
        send.send_flags = SIGNALED;
        send.ah = ah;
        send.remote_qpn = (*to.qp).qp_num;
        send.remote_qkey = QKEY;
        let mut bad_send = ptr::null_mut();
        assert_eq!(((*(*from.qp).context).ops.post_send)(from.qp, &mut send, &mut bad_send), 0);
        from.wait();
        assert_eq!(to.wait() as usize, GRH + SIZE);
        let received = slice::from_raw_parts(to.memory[GRH..].as_ptr(), SIZE);
        assert_eq!(received, &from.memory[GRH..], "message {}", number);
    }
}

fn main() {
    unsafe {
        let mut count = 0;
        let list = ibv_get_device_list(&mut count);
        assert!(count >= 1, "there is no device");
        assert!(!ibv_get_device_name(*list).is_null());
        let context = ibv_open_device(*list);
        assert!(!context.is_null());
        let mut port: PortAttr = mem::zeroed();
        assert_eq!(ibv_query_port(context, 1, &mut port), 0);
        let shared = Shared { context, pd: ibv_alloc_pd(context), lid: port.lid };
        let threads: Vec<_> = (0..PAIRS)
            .map(|pair| {
                thread::spawn(move || {
                    let shared = shared;
                    let mut to: AhAttr = mem::zeroed();
                    to.dlid = shared.lid;
                    to.port_num = 1;
                    let ah = ibv_create_ah(shared.pd, &mut to);
                    assert!(!ah.is_null());
                    let (mut a, mut b) = (Side::new(shared), Side::new(shared));
                    exchange(ah, &mut a, &mut b, pair * 31);
                    exchange(ah, &mut b, &mut a, !(pair * 31));
                    assert_eq!(ibv_destroy_ah(ah), 0);
                    a.release();
                    b.release();
                })
            })
            .collect();
        for each in threads {
            each.join().unwrap();
        }
        assert_eq!(ibv_dealloc_pd(shared.pd), 0);
        assert_eq!(ibv_close_device(context), 0);
        ibv_free_device_list(list);
        println!("{} messages", 2 * PAIRS as usize * MESSAGES);
    }
}
