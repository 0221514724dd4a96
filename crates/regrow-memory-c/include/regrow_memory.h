/* The memory service of Regrow for C programs: blocks of pages by address, from all threads.
 *
 * Generated from crates/regrow-memory-c/src by cbindgen: do not edit. */


#ifndef REGROW_MEMORY_H
#define REGROW_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a call has come to. Nothing has changed where it is not REGROW_MEMORY_STATUS_OK.
typedef enum {
  // It is done.
  REGROW_MEMORY_STATUS_OK = 0,
  // A pointer that must point to something is null.
  REGROW_MEMORY_STATUS_NULL = 1,
  // No service has so many chunks or zones, or so few.
  REGROW_MEMORY_STATUS_OPTIONS = 2,
  // No block is so large.
  REGROW_MEMORY_STATUS_TOO_LARGE = 3,
  // The service has no memory for such a block.
  REGROW_MEMORY_STATUS_NO_MEMORY = 4,
  // The block is free already.
  REGROW_MEMORY_STATUS_FREED_TWICE = 5,
  // No block of this client begins at the address.
  REGROW_MEMORY_STATUS_NO_BLOCK = 6,
  // The address is none of the service.
  REGROW_MEMORY_STATUS_OUTSIDE = 7,
  // The system refuses: most often a limit of memory, or of mappings.
  REGROW_MEMORY_STATUS_SYSTEM = 8,
} RegrowMemoryStatus;

// How the pages of a block come.
typedef enum {
  // They are there when the block is given.
  REGROW_MEMORY_MODE_IMMEDIATE = 0,
  // They come when they are touched.
  REGROW_MEMORY_MODE_DELAYED = 1,
} RegrowMemoryMode;

// A client of a service. All threads of the program may use it at the same time.
typedef struct RegrowMemoryClient RegrowMemoryClient;

// Hooks: what jemalloc has as `extent_hooks_t`. A pointer to them is passed to it as a pointer to that.
typedef struct RegrowMemoryHooks RegrowMemoryHooks;

// A service.
typedef struct RegrowMemoryService RegrowMemoryService;

// How a service is made. A zero stands for what the service takes by itself.
typedef struct {
  // How much memory it may use, in chunks of 2 MiB.
  uint32_t chunks;
  // How many zones there are: as many as processors work at a time.
  uint32_t zones;
  // The chunks by which a zone grows.
  uint32_t grow_by;
  // Blocks of a chunk and more that nobody has needed for so long go back to the kernel.
  uint32_t t1_ms;
  // The same of blocks of all sizes.
  uint32_t t2_ms;
} RegrowMemoryOptions;

// What a service holds at a moment.
typedef struct {
  // Zones.
  uint32_t zones;
  // Pages of 4 KiB that the zones have.
  uint64_t own_pages;
  // Those that no client has.
  uint64_t free_pages;
  // Those of them that may be there in memory.
  uint64_t idle_pages;
  // Pages that were given back to the kernel until now.
  uint64_t given_back_pages;
} RegrowMemoryState;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of a status, which lives as long as the program. A number that is no status has a text that says so.
const char *regrow_memory_status_text(int32_t status);

// Makes a service, which `regrow_memory_service_destroy` destroys. Without options (null) it is 1 GiB large.
//
// # Safety
// `options` is null or points to options, and `service` to where the service is to be written.
RegrowMemoryStatus regrow_memory_service_new(const RegrowMemoryOptions *options,
                                             RegrowMemoryService **service);

// Destroys a service. Its memory is there until its clients are destroyed, too. Null is no service, and nothing is done.
//
// # Safety
// `service` is null, or a service that was not destroyed before; it is not used again.
void regrow_memory_service_destroy(RegrowMemoryService *service);

// Writes what a service holds. What threads of its clients keep for their next requests counts as had by them.
//
// # Safety
// `service` is null or a service, and `state` null or where the state is to be written.
RegrowMemoryStatus regrow_memory_service_state(const RegrowMemoryService *service,
                                               RegrowMemoryState *state);

// Starts the thread that gives back what nobody needs: after t1_ms and t2_ms, and at once when the kernel says that memory is short. Once is
// enough, and it ends with the service. A child of fork has none, and is told so (REGROW_MEMORY_STATUS_SYSTEM). Without it memory goes back by
// `regrow_memory_service_give_back` alone.
//
// # Safety
// `service` is null or a service.
RegrowMemoryStatus regrow_memory_service_start_keeper(const RegrowMemoryService *service);

// Gives all pages back to the kernel that nobody uses, and writes how many these were to `pages`, which may be null. What threads of clients
// keep for their next requests is in use: `regrow_memory_trim` has it go, too.
//
// # Safety
// `service` is null or a service, and `pages` null or where the number is to be written.
RegrowMemoryStatus regrow_memory_service_give_back(const RegrowMemoryService *service,
                                                   uint64_t *pages);

// Makes a client of a service, which `regrow_memory_client_destroy` destroys.
//
// # Safety
// `service` is null or a service, and `client` null or where the client is to be written.
RegrowMemoryStatus regrow_memory_client_new(const RegrowMemoryService *service,
                                            RegrowMemoryClient **client);

// Destroys a client. Its blocks are nobody's from then on, and their memory goes with the service. Null is no client.
//
// # Safety
// `client` is null, or a client that was not destroyed before; neither it nor its blocks are used again.
void regrow_memory_client_destroy(RegrowMemoryClient *client);

// A block of so many bytes at least, at the beginning of a page: its address is written to `block`. What is in it is zero, or what this
// client has written to a block before. `mode` is a RegrowMemoryMode.
//
// # Safety
// `client` is null or a client, and `block` null or where the address is to be written.
RegrowMemoryStatus regrow_memory_alloc(const RegrowMemoryClient *client,
                                       size_t bytes,
                                       int32_t mode,
                                       void **block);

// The same, all of it zero.
//
// # Safety
// As `regrow_memory_alloc`.
RegrowMemoryStatus regrow_memory_alloc_zeroed(const RegrowMemoryClient *client,
                                              size_t bytes,
                                              int32_t mode,
                                              void **block);

// Takes a block back, from any thread. Null is no block, and nothing is done.
//
// # Safety
// `client` is null or a client. The block is not used again. Any address may be passed: one that is no block's is a status.
RegrowMemoryStatus regrow_memory_free(const RegrowMemoryClient *client,
                                      void *block);

// The same for callers that cannot look at a status: where the block cannot be taken back, the program ends by abort, and standard
// error says which address was wrong, and how.
//
// # Safety
// As `regrow_memory_free`.
void regrow_memory_free_or_abort(const RegrowMemoryClient *client,
                                 void *block);

// Writes the bytes of the block that begins at an address to `bytes`: those that were asked for, and what there is behind them.
//
// # Safety
// `client` is null or a client, and `bytes` null or where the size is to be written.
RegrowMemoryStatus regrow_memory_size(const RegrowMemoryClient *client,
                                      const void *block,
                                      size_t *bytes);

// Whether an address is in the range of a client's service.
//
// # Safety
// `client` is null or a client.
bool regrow_memory_contains(const RegrowMemoryClient *client, const void *address);

// Gives home what threads keep for their next requests.
//
// # Safety
// `client` is null or a client.
RegrowMemoryStatus regrow_memory_trim(const RegrowMemoryClient *client);

// Hooks for arenas whose extents are blocks of a client; null for a client that is null.
//
// # Safety
// `client` is null, or a client that lives as long as the arenas do.
RegrowMemoryHooks *regrow_memory_hooks_new(const RegrowMemoryClient *client);

// Destroys hooks that no arena has. Null is no hooks.
//
// # Safety
// `hooks` is null, or hooks that were not destroyed before and that no arena has.
void regrow_memory_hooks_destroy(RegrowMemoryHooks *hooks);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* REGROW_MEMORY_H */
