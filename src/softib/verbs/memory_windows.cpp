// Memory windows: functions of the context, and binding by ibv_bind_mw().
#include "softib/hca/errors.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  return verb([&]() -> ipoib::Result<ibv_mw*> {
    auto& context = of(pd->context);
    auto window = std::make_unique<Mw>();
    const auto hca = context.device.hca();
    if (hca->has_failed()) return hca::hca_failed();
    const auto key = hca->memory().add_window(*of(pd).model, type);
    if (!key) return key.error();
    static_cast<ibv_mw&>(*window) = {pd->context, pd, *key, *key, type};
    track(context, context.mws, window.get());
    return window.release();
  });
}

/// Implements ibv_dealloc_mw(). The key may have changed, its index has not.
int dealloc_mw(ibv_mw* mw) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(mw->context);
    if (auto destroyed = context.device.hca()->memory().remove_window(mw->handle); !destroyed) {
      return destroyed;
    }
    untrack(context, context.mws, &of(mw));
    delete &of(mw);
    return {};
  });
}

/// Binds a window of type 1: the HCA chooses the key, which is valid as soon as the request is
/// posted.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  return verb([&]() -> ipoib::Result<void> {
    ibv_send_wr request{};
    request.wr_id = bind->wr_id;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = bind->send_flags;
    request.bind_mw = {mw, ibv_inc_rkey(mw->rkey), bind->bind_info};
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(qp, &request, &bad)) {
      return ipoib::Error{error,
                          "the request to bind the window cannot be posted: it needs a window of "
                          "type 1, and a queue pair in state RTS with room in its send queue"};
    }
    mw->rkey = request.bind_mw.rkey;
    return {};
  });
}

}  // namespace

void fill_in_memory_window_verbs(Context& context) {
  context.context.ops.alloc_mw = alloc_mw;
  context.context.ops.dealloc_mw = dealloc_mw;
  context.context.ops.bind_mw = bind_mw;
}

}  // namespace softib::verbs
