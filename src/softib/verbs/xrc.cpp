// XRC domains: open and close.
#include <fcntl.h>
#include <sys/stat.h>

#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

constexpr std::uint32_t kRequired = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

/// The name of the domain: the file of a descriptor; none for -1.
ipoib::Result<std::optional<hca::XrcDomainName>> name_of(int fd) {
  if (fd == -1) return std::optional<hca::XrcDomainName>();
  struct stat file {};
  if (::fstat(fd, &file) != 0)
    return ipoib::Error{errno, "the XRC domain needs a descriptor of a file, or -1"};
  return std::optional(hca::XrcDomainName{file.st_dev, file.st_ino});
}

/// Opens a domain. Other processes that open the same file have domains of their own: they own
/// their shared receive queues, and nobody else can write to the memory of those.
ibv_xrcd* open_xrcd(ibv_context* ibv, ibv_xrcd_init_attr* attr) {
  return verb([&]() -> ipoib::Result<ibv_xrcd*> {
    if ((attr->comp_mask & ~kRequired) != 0) return unsupported("such an XRC domain");
    if (attr->comp_mask != kRequired) {
      return ipoib::Error{EINVAL, "an XRC domain needs fd and oflags: set both bits in comp_mask"};
    }
    const auto name = name_of(attr->fd);
    if (!name) return name.error();
    auto& context = of(ibv);
    auto xrcd = std::make_unique<Xrcd>();
    xrcd->context = ibv;
    const auto model = context.device.hca()->shared_receives().open_domain(
        *name, {(attr->oflags & O_CREAT) != 0, (attr->oflags & O_EXCL) != 0});
    if (!model) return model.error();
    xrcd->model = *model;
    track(context, context.xrcds, xrcd.get());
    return xrcd.release();
  });
}

int close_xrcd(ibv_xrcd* ibv) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(ibv->context);
    auto& xrcd = of(ibv);
    if (auto closed = context.device.hca()->shared_receives().close(*xrcd.model); !closed)
      return closed;
    untrack(context, context.xrcds, &xrcd);
    delete &xrcd;
    return {};
  });
}

}  // namespace

void fill_in_xrc_verbs(Context& context) {
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
}

}  // namespace softib::verbs
