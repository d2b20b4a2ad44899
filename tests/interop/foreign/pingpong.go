// A program in Go that calls libibverbs by cgo: two queue pairs of one HCA, or of two programs, send
// each other messages of a reliable connection from several goroutines. Prints "N messages" at its end;
// any byte that is wrong, or any error, is fatal.
package main

/*
#cgo LDFLAGS: -libverbs
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

// These two are macros.
static int query_port(struct ibv_context *context, struct ibv_port_attr *attr) {
	return ibv_query_port(context, 1, attr);
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, void *memory, size_t size) {
	return ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *cq) {
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	return ibv_create_qp(pd, &attr);
}

static int connect_to(struct ibv_qp *qp, unsigned qpn, unsigned lid) {
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.dlid = lid, .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1};
	int failed = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!failed) failed = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!failed) failed = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return failed;
}

static int post_send(struct ibv_qp *qp, struct ibv_mr *mr, char *at, unsigned size) {
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = size, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_mr *mr, char *at, unsigned size) {
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = size, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

// Waits for one completion. Returns its status, or -1.
static int wait_for(struct ibv_cq *cq) {
	struct ibv_wc wc;
	int found;
	while ((found = ibv_poll_cq(cq, 1, &wc)) == 0) {}
	return found < 0 ? -1 : (int)wc.status;
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"log"
	"sync"
	"unsafe"
)

const (
	pairs    = 4
	messages = 250
	size     = 4096
)

type side struct {
	cq     *C.struct_ibv_cq
	qp     *C.struct_ibv_qp
	mr     *C.struct_ibv_mr
	memory unsafe.Pointer // not Go's: its collector may move and unmap what it owns
}

func check(failed C.int, what string) {
	if failed != 0 {
		log.Fatalf("%s: %d", what, failed)
	}
}

func newSide(context *C.struct_ibv_context, pd *C.struct_ibv_pd) side {
	one := side{memory: C.malloc(size)}
	one.cq = C.ibv_create_cq(context, 32, nil, nil, 0)
	one.qp = C.create(pd, one.cq)
	one.mr = C.register_memory(pd, one.memory, size)
	if one.cq == nil || one.qp == nil || one.mr == nil {
		log.Fatal("an object of verbs cannot be created")
	}
	return one
}

func (one side) bytes() []byte { return unsafe.Slice((*byte)(one.memory), size) }

func (one side) release() {
	check(C.ibv_destroy_qp(one.qp), "ibv_destroy_qp")
	check(C.ibv_destroy_cq(one.cq), "ibv_destroy_cq")
	check(C.ibv_dereg_mr(one.mr), "ibv_dereg_mr")
	C.free(one.memory)
}

func exchange(from, to side, seed byte) {
	for i := 0; i < messages; i++ {
		sent := from.bytes()
		for at := range sent {
			sent[at] = byte(at*7+i) ^ seed
		}
		check(C.post_recv(to.qp, to.mr, (*C.char)(to.memory), size), "ibv_post_recv")
		check(C.post_send(from.qp, from.mr, (*C.char)(from.memory), size), "ibv_post_send")
		check(C.wait_for(from.cq), "send completion")
		check(C.wait_for(to.cq), "receive completion")
		if !bytes.Equal(sent, to.bytes()) {
			log.Fatalf("message %d differs", i)
		}
	}
}

func main() {
	list := C.ibv_get_device_list(nil)
	if list == nil || *list == nil {
		log.Fatal("there is no device")
	}
	context := C.ibv_open_device(*list)
	if context == nil {
		log.Fatal("the device cannot be opened")
	}
	var port C.struct_ibv_port_attr
	check(C.query_port(context, &port), "ibv_query_port")
	pd := C.ibv_alloc_pd(context)
	var group sync.WaitGroup
	for i := 0; i < pairs; i++ {
		group.Add(1)
		go func(seed byte) {
			defer group.Done()
			a, b := newSide(context, pd), newSide(context, pd)
			check(C.connect_to(a.qp, C.uint(b.qp.qp_num), C.uint(port.lid)), "ibv_modify_qp")
			check(C.connect_to(b.qp, C.uint(a.qp.qp_num), C.uint(port.lid)), "ibv_modify_qp")
			exchange(a, b, seed)
			exchange(b, a, ^seed)
			a.release()
			b.release()
		}(byte(i * 31))
	}
	group.Wait()
	check(C.ibv_dealloc_pd(pd), "ibv_dealloc_pd")
	check(C.ibv_close_device(context), "ibv_close_device")
	C.ibv_free_device_list(list)
	fmt.Printf("%d messages\n", 2*pairs*messages)
}
