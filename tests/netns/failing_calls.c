/* A library to preload, which makes one function of another library fail: of libibverbs, libibumad,
 * libnl or the C library.
 *
 *   FAILING_CALL=NAME,ERROR[,SKIP[,ARGUMENT]]
 *
 * ERROR is the errno value or what the library has in its place. The first SKIP calls succeed, and
 * with ARGUMENT all calls whose second argument is another number, such as the request of ioctl().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Each function of the list takes up to six integers or pointers. */
typedef long (*Call)(long, long, long, long, long, long);

struct Function {
  const char* name;
  Call next;
  int calls;
};

/* Returns the error of this call; 0 if it does not fail. */
static int error_of(struct Function* self, long second) {
  if (self->next == NULL) *(void**)&self->next = dlsym(RTLD_NEXT, self->name);
  const char* const wanted = getenv("FAILING_CALL");
  const size_t size = strlen(self->name);
  if (wanted == NULL || strncmp(wanted, self->name, size) != 0 || wanted[size] != ',') return 0;
  char* at = NULL;
  const int error = (int)strtol(wanted + size + 1, &at, 0);
  const long skip = *at == ',' ? strtol(at + 1, &at, 0) : 0;
  if (*at == ',' && strtol(at + 1, &at, 0) != second) return 0;
  return __atomic_add_fetch(&self->calls, 1, __ATOMIC_RELAXED) > skip ? error : 0;
}

#define FAILS(name, result)                                   \
  long name(long a, long b, long c, long d, long e, long f);  \
  long name(long a, long b, long c, long d, long e, long f) { \
    static struct Function self = {#name, NULL, 0};           \
    const int error = error_of(&self, b);                     \
    if (error == 0) return self.next(a, b, c, d, e, f);       \
    errno = error;                                            \
    return result;                                            \
  }

FAILS(ibv_open_device, 0)
FAILS(ibv_query_device, error)
FAILS(ibv_query_gid, -1)
FAILS(ibv_alloc_pd, 0)
FAILS(ibv_create_comp_channel, 0)
FAILS(ibv_create_cq, 0)
FAILS(ibv_reg_mr, 0)
FAILS(ibv_create_ah, 0)
FAILS(ibv_attach_mcast, error)
FAILS(ibv_detach_mcast, error)
FAILS(ibv_destroy_qp, error)
FAILS(ibv_modify_qp, error)
FAILS(umad_open_port, -error)
FAILS(umad_register, -error)
FAILS(umad_send, -error)
FAILS(nl_connect, -error)
FAILS(nl_socket_set_nonblocking, -error)
FAILS(nl_socket_add_membership, -error)
FAILS(nl_recvmsgs_default, -error)
FAILS(nl_send_sync, -error)
FAILS(rtnl_link_change, -error)
FAILS(rtnl_link_get_kernel, -error)
FAILS(rtnl_addr_add, -error)
FAILS(ioctl, -1)
FAILS(fcntl, -1)
FAILS(socket, -1)
FAILS(prctl, -1)
FAILS(seccomp_load, -error)

/* The groups are a list that ends with 0. */
int nl_socket_get_fd(const void* socket);
int setsockopt(int fd, int level, int name, const void* value, unsigned size);
int nl_socket_add_memberships(void* socket, int group, ...);
int nl_socket_add_memberships(void* socket, int group, ...) {
  static struct Function self = {"nl_socket_add_memberships", NULL, 0};
  const int error = error_of(&self, group);
  if (error != 0) return -error;
  enum { SOL_NETLINK = 270, NETLINK_ADD_MEMBERSHIP = 1 };
  va_list list;
  va_start(list, group);
  int result = 0;
  for (; group != 0 && result == 0; group = va_arg(list, int)) {
    result = setsockopt(nl_socket_get_fd(socket), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
                        sizeof group);
  }
  va_end(list);
  return result;
}
