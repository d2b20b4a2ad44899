/* Direct verbs of softib's HCAs, beyond libibverbs. See softibdv_post_large_recv(3) and
 * softibdv_last_error(3).
 *
 * Large receives. A large send (IBV_WR_TSO) of a UD queue pair can be received unsegmented, by one
 * receive and one completion, if it leaves its checksums to the HCA (IBV_SEND_IP_CSUM), is not
 * multicast, and stands for 2 to 64 datagrams that make an IP packet of at most 65535 bytes. Large
 * receives are posted separately; while none is posted, the datagrams use the receives of
 * ibv_post_recv(3). In both cases, ports count datagrams and captures show them.
 *
 *     | GRH 40, valid with IBV_WC_GRH | encapsulation 4 | IPv4 or IPv6 | TCP or UDP | payload |
 *
 * The headers are those of a TSO packet, as a TUN device with virtio headers takes it: lengths and
 * the IPv4 checksum are those of the whole packet, and the field of the TCP or UDP checksum has the
 * sum of the pseudo-header, even if IBV_WC_IP_CSUM_OK says that nothing has to be verified. The GRH
 * is that of the first datagram.
 *
 * The functions are in libsoftib.so, which `softib run` loads; find them with dlsym(3).
 */
#ifndef INFINIBAND_SOFTIBDV_H
#define INFINIBAND_SOFTIBDV_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTIBDV_API __attribute__((visibility("default")))

/* Minimum total size of the scatter elements of a large receive, in bytes. */
#define SOFTIBDV_LARGE_RECV_SIZE 65832
/* Maximum number of large receives of a queue pair that are posted and not yet polled. */
#define SOFTIBDV_MAX_LARGE_RECVS 64

/* Posts large receives like ibv_post_recv(3). Returns 0, or an errno value and sets *bad_wr to the
 * first that was not posted. EINVAL: too little room, too many scatter elements, or a queue pair in
 * RESET. ENOMEM: SOFTIBDV_MAX_LARGE_RECVS are posted already. Like other receives, they complete
 * with IBV_WC_WR_FLUSH_ERR in state ERR, and RESET discards them. */
SOFTIBDV_API int softibdv_post_large_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr,
                                          struct ibv_recv_wr** bad_wr);

/* Size in bytes of the longest text of softibdv_last_error(), with the null byte. */
#define SOFTIBDV_MAX_ERROR_TEXT 256

/* Returns why the last verb, or function of libibumad or librdmacm, that failed in this thread has
 * failed: its name, the name of the errno value, and a sentence. Empty if none has failed. Valid
 * until the next one fails in this thread. */
SOFTIBDV_API const char* softibdv_last_error(void);

/* The bytes of TCP or UDP payload in each datagram that a successful receive stands for; the last
 * may have fewer. Returns 0 for a receive of one datagram. */
static inline uint32_t softibdv_segment_size(const struct ibv_wc* wc) { return wc->vendor_err; }

#ifdef __cplusplus
}
#endif

#endif
