// Writes a file to an iSCSI disk, or reads the disk into a file, with several requests in flight.
//
// Usage: iscsi_image INITIATOR URL write|read FILE
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
}

namespace {

constexpr std::uint32_t kBlock = 512;
constexpr std::uint32_t kRequest = 64 * 1024;
constexpr int kInFlight = 8;

struct Transfer {
  iscsi_context* iscsi;
  int lun;
  bool is_write;
  std::vector<unsigned char> bytes;
  std::uint32_t next = 0;  ///< the first byte that has not been asked for
  int in_flight = 0;
  bool has_failed = false;
};

void ask(Transfer& transfer);

struct Request {
  Transfer& transfer;
  std::uint32_t at;
};

void answered(iscsi_context*, int status, void* data, void* context) {
  auto* const request = static_cast<Request*>(context);
  auto* const task = static_cast<scsi_task*>(data);
  Transfer& transfer = request->transfer;
  --transfer.in_flight;
  if (status != SCSI_STATUS_GOOD) {
    transfer.has_failed = true;
  } else if (!transfer.is_write) {
    std::copy_n(task->datain.data, task->datain.size, transfer.bytes.begin() + request->at);
  }
  scsi_free_scsi_task(task);
  delete request;
  ask(transfer);
}

void ask(Transfer& transfer) {
  while (!transfer.has_failed && transfer.in_flight < kInFlight &&
         transfer.next < transfer.bytes.size()) {
    auto* const request = new Request{transfer, transfer.next};
    const std::uint32_t block = transfer.next / kBlock;
    const auto* const task = transfer.is_write
                                 ? iscsi_write10_task(transfer.iscsi, transfer.lun, block,
                                                      &transfer.bytes[transfer.next], kRequest,
                                                      kBlock, 0, 0, 0, 0, 0, answered, request)
                                 : iscsi_read10_task(transfer.iscsi, transfer.lun, block, kRequest,
                                                     kBlock, 0, 0, 0, 0, 0, answered, request);
    if (task == nullptr) throw std::runtime_error(iscsi_get_error(transfer.iscsi));
    transfer.next += kRequest;
    ++transfer.in_flight;
  }
}

std::uint32_t size_of_disk(iscsi_context* iscsi, int lun) {
  scsi_task* const task = iscsi_readcapacity10_sync(iscsi, lun, 0, 0);
  const auto* const capacity =
      task == nullptr ? nullptr : static_cast<scsi_readcapacity10*>(scsi_datain_unmarshall(task));
  if (capacity == nullptr) throw std::runtime_error("the disk has no capacity");
  const std::uint32_t size = (capacity->lba + 1) * kBlock;
  scsi_free_scsi_task(task);
  return size;
}

int run(const std::string& initiator, const char* address, bool is_write, const char* file) {
  iscsi_context* const iscsi = iscsi_create_context(initiator.c_str());
  iscsi_url* const url = iscsi_parse_full_url(iscsi, address);
  if (url == nullptr) throw std::runtime_error(iscsi_get_error(iscsi));
  iscsi_set_targetname(iscsi, url->target);
  iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
  if (iscsi_full_connect_sync(iscsi, url->portal, url->lun) != 0) {
    throw std::runtime_error(iscsi_get_error(iscsi));
  }
  Transfer transfer{iscsi, url->lun, is_write, {}};
  transfer.bytes.resize(size_of_disk(iscsi, url->lun));
  if (is_write) {
    std::ifstream from(file, std::ios::binary);
    from.read(reinterpret_cast<char*>(transfer.bytes.data()),
              static_cast<std::streamsize>(transfer.bytes.size()));
    if (!from) throw std::runtime_error("the file is shorter than the disk");
  }
  ask(transfer);
  while (transfer.in_flight > 0) {
    pollfd ready{iscsi_get_fd(iscsi), static_cast<short>(iscsi_which_events(iscsi)), 0};
    if (::poll(&ready, 1, 1000) < 0 || iscsi_service(iscsi, ready.revents) != 0) {
      throw std::runtime_error(iscsi_get_error(iscsi));
    }
  }
  if (transfer.has_failed) throw std::runtime_error("a request failed");
  if (!is_write) {
    std::ofstream to(file, std::ios::binary);
    to.write(reinterpret_cast<const char*>(transfer.bytes.data()),
             static_cast<std::streamsize>(transfer.bytes.size()));
  }
  (void)iscsi_logout_sync(iscsi);
  iscsi_destroy_url(url);
  iscsi_destroy_context(iscsi);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: iscsi_image INITIATOR URL write|read FILE");
  return run(argv[1], argv[2], argv[3] == std::string("write"), argv[4]);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
