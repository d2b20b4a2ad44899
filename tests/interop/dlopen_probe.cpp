// A program that links neither libibverbs nor libibumad, but opens them, and looks their functions
// up with and without versions, as NCCL does. It fails if it gets other functions than those of
// softib.
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void* open_library(const char* name) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, std::string(name) + " cannot be opened");
  return library;
}

/// The function of that name, and of this version unless it is null.
template <class Function>
Function* look_up(void* library, const char* name, const char* version) {
  void* const found =
      version == nullptr ? ::dlsym(library, name) : ::dlvsym(library, name, version);
  require(found != nullptr, std::string("no ") + name);
  return reinterpret_cast<Function*>(found);
}

#define LOOK_UP(library, name, version) look_up<decltype(::name)>(library, #name, version)

void use_verbs() {
  void* const verbs = open_library("libibverbs.so.1");
  const auto alloc_pd = LOOK_UP(verbs, ibv_alloc_pd, "IBVERBS_1.1");
  require(LOOK_UP(verbs, ibv_alloc_pd, nullptr) == alloc_pd, "two functions of one name");
  // An older ABI, with structures that softib does not have.
  require(::dlvsym(verbs, "ibv_alloc_pd", "IBVERBS_1.0") == nullptr, "an older version");

  int count = 0;
  ibv_device** const devices = LOOK_UP(verbs, ibv_get_device_list, "IBVERBS_1.1")(&count);
  require(count == 1, "the program has one device");
  ibv_context* const context = LOOK_UP(verbs, ibv_open_device, "IBVERBS_1.1")(devices[0]);
  require(context != nullptr, "the device cannot be opened");
  ibv_pd* const pd = alloc_pd(context);
  require(pd != nullptr, "no protection domain");
  static std::array<char, 4096> memory;
  ibv_mr* const region = LOOK_UP(verbs, ibv_reg_mr_iova2, "IBVERBS_1.8")(
      pd, memory.data(), memory.size(), 0, IBV_ACCESS_LOCAL_WRITE);
  require(region != nullptr, "no memory region");
  require(LOOK_UP(verbs, ibv_dereg_mr, "IBVERBS_1.1")(region) == 0, "the region is in use");
}

void use_umad() {
  void* const umad = open_library("libibumad.so.3");
  char names[2][UMAD_CA_NAME_LEN];
  require(LOOK_UP(umad, umad_get_cas_names, nullptr)(names, 2) == 1, "the program has one CA");
  require(std::strcmp(names[0], "softib0") == 0, "a CA that is not softib's");
  // A program of a later version of rdma-core does not start without them.
  (void)look_up<int()>(umad, "umad_open_smi_port", "IBUMAD_1.3");
  (void)look_up<int()>(umad, "umad_get_smi_gsi_pairs", "IBUMAD_1.4");
  (void)look_up<int()>(umad, "umad_get_smi_gsi_pair_by_ca_name", "IBUMAD_1.4");
}

void look_for_other_libraries() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    require(line.find("/libibverbs.so") == line.npos && line.find("/libibumad.so") == line.npos,
            "a library of the system is loaded, too: " + line);
  }
}

}  // namespace

int main() try {
  use_verbs();
  use_umad();
  open_library("librdmacm.so.1");  // which needs libibverbs
  look_for_other_libraries();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
