// SA records (IBA 15.2.5) as values, with their component masks. parse() reads the wire format,
// emit() writes it; kSize is the size on the wire.
#pragma once

#include "wire/mc_member_record.hpp"  // IWYU pragma: export
#include "wire/node_record.hpp"       // IWYU pragma: export
#include "wire/path_record.hpp"       // IWYU pragma: export
#include "wire/port_info.hpp"         // IWYU pragma: export
#include "wire/sa_values.hpp"         // IWYU pragma: export
#include "wire/service_record.hpp"    // IWYU pragma: export
