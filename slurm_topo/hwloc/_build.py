"""cffi binding to libhwloc (API mode): ``_build.py OUT.c`` writes the C of ``slurm_topo.hwloc._hwloc``.

Structures are partial (``...``), so that the compiler takes offsets from the header that is installed.
"""

from __future__ import annotations

import sys

from cffi import FFI

CDEF = """
typedef struct hwloc_topology *hwloc_topology_t;
typedef struct hwloc_bitmap_s *hwloc_bitmap_t;
typedef const struct hwloc_bitmap_s *hwloc_const_bitmap_t;
typedef int... hwloc_obj_type_t;
typedef unsigned hwloc_memattr_id_t;

struct hwloc_obj {
  hwloc_obj_type_t type;
  char *subtype;
  unsigned os_index;
  char *name;
  int depth;
  unsigned logical_index;
  struct hwloc_obj *parent;
  struct hwloc_obj *next_sibling;
  struct hwloc_obj *first_child;
  struct hwloc_obj *memory_first_child;
  struct hwloc_obj *io_first_child;
  struct hwloc_obj *misc_first_child;
  hwloc_bitmap_t cpuset;
  hwloc_bitmap_t complete_cpuset;
  hwloc_bitmap_t nodeset;
  hwloc_bitmap_t complete_nodeset;
  uint64_t gp_index;
  ...;
};
typedef struct hwloc_obj *hwloc_obj_t;

struct hwloc_info_s { char *name; char *value; ...; };
struct hwloc_distances_s { unsigned nbobjs; hwloc_obj_t *objs; unsigned long kind; uint64_t *values; ...; };
struct hwloc_location { ...; };

typedef struct {
  unsigned domain, bus, dev, func;
  unsigned class_id, vendor, device, subvendor, subdevice, revision;
  double linkspeed;
} st_hwloc_pci;
typedef struct { int host, pci_below; unsigned domain, secondary_bus, subordinate_bus; } st_hwloc_bridge;

#define ST_OSDEV_BLOCK ...
#define ST_OSDEV_GPU ...
#define ST_OSDEV_NETWORK ...
#define ST_OSDEV_OPENFABRICS ...
#define ST_OSDEV_DMA ...
#define ST_OSDEV_COPROC ...
#define ST_OSDEV_MEMORY ...
#define HWLOC_DISTANCES_KIND_MEANS_LATENCY ...
#define HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH ...
#define HWLOC_MEMATTR_FLAG_NEED_INITIATOR ...
#define HWLOC_API_VERSION ...

unsigned hwloc_get_api_version(void);
int hwloc_topology_init(hwloc_topology_t *topology);
int hwloc_topology_load(hwloc_topology_t topology);
void hwloc_topology_destroy(hwloc_topology_t topology);
int hwloc_topology_set_synthetic(hwloc_topology_t topology, const char *description);
int hwloc_topology_set_xmlbuffer(hwloc_topology_t topology, const char *buffer, int size);
int hwloc_topology_is_thissystem(hwloc_topology_t topology);
int hwloc_topology_export_xmlbuffer(hwloc_topology_t topology, char **buffer, int *length,
                                    unsigned long flags);
void hwloc_free_xmlbuffer(hwloc_topology_t topology, char *buffer);
hwloc_obj_t hwloc_get_obj_by_depth(hwloc_topology_t topology, int depth, unsigned index);
const char *hwloc_obj_type_string(hwloc_obj_type_t type);
hwloc_const_bitmap_t hwloc_topology_get_allowed_cpuset(hwloc_topology_t topology);
hwloc_const_bitmap_t hwloc_topology_get_allowed_nodeset(hwloc_topology_t topology);

hwloc_bitmap_t hwloc_bitmap_alloc(void);
void hwloc_bitmap_free(hwloc_bitmap_t set);
int hwloc_bitmap_weight(hwloc_const_bitmap_t set);
int hwloc_bitmap_nr_ulongs(hwloc_const_bitmap_t set);
int hwloc_bitmap_to_ulongs(hwloc_const_bitmap_t set, unsigned count, unsigned long *masks);

int hwloc_distances_get(hwloc_topology_t topology, unsigned *count, struct hwloc_distances_s **distances,
                        unsigned long kind, unsigned long flags);
const char *hwloc_distances_get_name(hwloc_topology_t topology, struct hwloc_distances_s *distances);
void hwloc_distances_release(hwloc_topology_t topology, struct hwloc_distances_s *distances);

int hwloc_memattr_get_name(hwloc_topology_t topology, hwloc_memattr_id_t attribute, const char **name);
int hwloc_memattr_get_flags(hwloc_topology_t topology, hwloc_memattr_id_t attribute, unsigned long *flags);
int hwloc_memattr_get_targets(hwloc_topology_t topology, hwloc_memattr_id_t attribute,
                              struct hwloc_location *initiator, unsigned long flags, unsigned *count,
                              hwloc_obj_t *targets, uint64_t *values);
int hwloc_memattr_get_initiators(hwloc_topology_t topology, hwloc_memattr_id_t attribute, hwloc_obj_t target,
                                 unsigned long flags, unsigned *count, struct hwloc_location *initiators,
                                 uint64_t *values);
int hwloc_cpukinds_get_nr(hwloc_topology_t topology, unsigned long flags);

int st_hwloc_configure(hwloc_topology_t topology);
unsigned st_hwloc_osdev_roles(hwloc_obj_t obj);
int st_hwloc_pci_of(hwloc_obj_t obj, st_hwloc_pci *out);
int st_hwloc_bridge_of(hwloc_obj_t obj, st_hwloc_bridge *out);
uint64_t st_hwloc_cache_size(hwloc_obj_t obj);
uint64_t st_hwloc_local_memory(hwloc_obj_t obj);
unsigned st_hwloc_info_count(hwloc_obj_t obj);
const char *st_hwloc_info(hwloc_obj_t obj, unsigned i, int value);
int st_hwloc_cpukind(hwloc_topology_t topology, unsigned kind, hwloc_bitmap_t cpuset, int *efficiency,
                     unsigned *count, struct hwloc_info_s **pairs);
hwloc_const_bitmap_t st_hwloc_location_cpuset(const struct hwloc_location *location);
"""

ffi = FFI()
ffi.cdef(CDEF)
ffi.set_source("slurm_topo.hwloc._hwloc", '#include "shim.h"', py_limited_api=True)

if __name__ == "__main__":
    ffi.emit_c_code(sys.argv[1])
