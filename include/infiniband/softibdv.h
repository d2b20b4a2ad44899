/* Direct verbs of softib's HCAs: what they can do beyond libibverbs. See
 * softibdv_post_large_recv(3).
 *
 * Large receives. A large send (IBV_WR_TSO) of a UD queue pair that leaves its checksums to the HCA
 * (IBV_SEND_IP_CSUM), and goes to one other, can be received as it was sent: by one receive and one
 * completion, in the place of the datagrams that it stands for, if these are 2 to 64 and make an IP
 * packet of at most 65535 octets. That takes receives of their own; while none is posted, the
 * datagrams come one by one to those of ibv_post_recv(3). Either way ports count datagrams, and
 * captures show them.
 *
 *     | GRH 40, valid with IBV_WC_GRH | encapsulation 4 | IPv4 or IPv6 | TCP or UDP | payload |
 *
 * The headers are those of a packet that is to be cut, as a TUN device with virtio headers takes
 * it: lengths and the checksum of IPv4 are those of the whole, and in the place of the checksum of
 * TCP or UDP is the sum of its pseudo-header, also where IBV_WC_IP_CSUM_OK says that nothing has to
 * be verified. The GRH is that of the first datagram.
 *
 * The function is in libsoftib.so, which `softib run` loads; dlsym(3) finds it there.
 */
#ifndef INFINIBAND_SOFTIBDV_H
#define INFINIBAND_SOFTIBDV_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTIBDV_API __attribute__((visibility("default")))

/* Octets that the scatter elements of a large receive have room for, at least. */
#define SOFTIBDV_LARGE_RECV_OCTETS 65832
/* Large receives of one queue pair that may be posted and not yet polled. */
#define SOFTIBDV_MAX_LARGE_RECVS 64

/* Posts large receives, like ibv_post_recv(3): 0, or an errno value with *bad_wr at the first that
 * was not posted. EINVAL: too little room, too many scatter elements, or a queue pair in RESET;
 * ENOMEM: SOFTIBDV_MAX_LARGE_RECVS are out. They come back as other receives do: by a completion,
 * in state ERR with IBV_WC_WR_FLUSH_ERR, and by the transition to RESET. */
SOFTIBDV_API int softibdv_post_large_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr,
                                          struct ibv_recv_wr** bad_wr);

/* Octets of payload of TCP or UDP in each datagram that a successful receive stands for, but for
 * the last, which may have less; 0: it is one datagram. */
static inline uint32_t softibdv_segment_octets(const struct ibv_wc* wc) { return wc->vendor_err; }

#ifdef __cplusplus
}
#endif

#endif
