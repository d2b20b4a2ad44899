/* A server and a client of UCP that connect by an IP address, as the connection manager rdmacm
 * does: the client sends messages by tag, the server sends them back, and each byte is compared.
 *
 * Usage: ucx_echo server PORT | ucx_echo client ADDRESS PORT
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { MESSAGES = 100, LARGEST = 200000, TAG = 7 };

static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucp_conn_request_h wanted;

static void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static int is_done;
static int has_peer_gone;

/* Ends with an error if the peer has gone too early. */
static void peer_failed(void* unused, ucp_ep_h of, ucs_status_t status) {
  (void)unused;
  (void)of;
  if (!is_done) check(status, "the peer");
  has_peer_gone = 1;
}

static void connection_wanted(ucp_conn_request_h request, void* unused) {
  (void)unused;
  wanted = request;
}

static void finish(ucs_status_ptr_t request, const char* what) {
  if (request == NULL) return;
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
  check(ucp_request_check_status(request), what);
  ucp_request_free(request);
}

static void send_message(const void* bytes, size_t size) {
  const ucp_request_param_t simple = {0};
  finish(ucp_tag_send_nbx(endpoint, bytes, size, TAG, &simple), "send");
}

static void receive_message(void* bytes, size_t size) {
  const ucp_request_param_t simple = {0};
  finish(ucp_tag_recv_nbx(worker, bytes, size, TAG, ~(ucp_tag_t)0, &simple), "receive");
}

static void make_worker(void) {
  ucp_config_t* config;
  ucp_context_h context;
  const ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
  const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SINGLE};
  check(ucp_config_read(NULL, NULL, &config), "configuration");
  check(ucp_init(&features, config, &context), "context");
  check(ucp_worker_create(context, &single, &worker), "worker");
}

static void connect_to(const struct sockaddr_in* server) {
  ucp_ep_params_t with = {
      .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {peer_failed, NULL}};
  if (server != NULL) {
    with.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
    with.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    with.sockaddr.addr = (const struct sockaddr*)server;
    with.sockaddr.addrlen = sizeof *server;
  } else {
    with.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
    with.conn_request = wanted;
  }
  check(ucp_ep_create(worker, &with, &endpoint), "endpoint");
}

static void listen_at(const struct sockaddr_in* at) {
  ucp_listener_h listener;
  const ucp_listener_params_t with = {
      .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {(const struct sockaddr*)at, sizeof *at},
      .conn_handler = {connection_wanted, NULL}};
  check(ucp_listener_create(worker, &with, &listener), "listener");
  puts("listens");
  fflush(stdout);
  while (wanted == NULL) ucp_worker_progress(worker);
}

static size_t size_of(int message) { return (size_t)message * LARGEST / (MESSAGES - 1) + 1; }

int main(int count, char** arguments) {
  static unsigned char sent[LARGEST + 1];
  static unsigned char received[LARGEST + 1];
  struct sockaddr_in address = {.sin_family = AF_INET};
  const int is_client = count == 4;
  if (count < 3) return 2;
  address.sin_port = htons((unsigned short)atoi(arguments[count - 1]));
  if (is_client && inet_pton(AF_INET, arguments[2], &address.sin_addr) != 1) return 2;
  make_worker();
  if (!is_client) listen_at(&address);
  connect_to(is_client ? &address : NULL);
  for (int i = 0; i < MESSAGES; ++i) {
    const size_t size = size_of(i);
    if (!is_client) {
      receive_message(received, size);
      is_done = i == MESSAGES - 1;
      send_message(received, size);
      continue;
    }
    for (size_t at = 0; at < size; ++at) sent[at] = (unsigned char)(at * 7 + (size_t)i);
    send_message(sent, size);
    receive_message(received, size);
    if (memcmp(sent, received, size) != 0) {
      fprintf(stderr, "message %d came back changed\n", i);
      return 1;
    }
  }
  is_done = 1;
  /* The client goes first, so that it has got all messages. */
  while (!is_client && !has_peer_gone) ucp_worker_progress(worker);
  if (is_client) printf("%d messages came back\n", MESSAGES);
  const ucp_request_param_t close = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = is_client ? 0 : UCP_EP_CLOSE_FLAG_FORCE};
  finish(ucp_ep_close_nbx(endpoint, &close), "close");
  ucp_worker_destroy(worker);
  return 0;
}
