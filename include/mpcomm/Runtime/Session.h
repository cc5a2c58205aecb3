/*===-- Session.h - the C ABI of training sessions ------------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* A session is one rank of a training job: its place in a world, the         *|
|* programs that it has loaded, and the state that outlives them. Link with   *|
|* libmpcomm_session.so. docs/Runtime/Session.md is the guide to this file.   *|
|*                                                                            *|
|*   open -> load -> (read_state | resume | write) -> step ... save -> close  *|
|*                                                                            *|
|* Who starts ranks by fork may open the program (mpcomm_program) and check   *|
|* everything with it before the first of them exists.                        *|
|*                                                                            *|
|* Errors. A call that can fail returns a mprt_status (MPRT_OK is 0) and      *|
|* fills the mpcomm_error that the caller gives it, which may be null. After  *|
|* a success, `error` is unchanged. Nothing is thrown, and no call ends the   *|
|* process. A null or unknown argument is MPRT_INVALID_ARGUMENT, with a       *|
|* message that names it, and changes nothing. An array of which the count is *|
|* 0 may be null.                                                             *|
|*                                                                            *|
|* Failed sessions. If a step or a communication fails, the session fails:    *|
|* every later call that uses state or other ranks returns that first error.  *|
|* `describe`, `events`, `read` and `close` remain possible. The other ranks  *|
|* are told, and fail as well instead of waiting.                             *|
|*                                                                            *|
|* Threads. Sessions share no state. Any number of sessions may be open in    *|
|* one process, each used by any thread. Calls on one session do not run at   *|
|* the same time: a call that comes while another is under way waits for it.  *|
|* Inside an event callback, a call on the same session is MPRT_NOT_READY.    *|
|* Of the process, sessions over Gloo ignore SIGPIPE, and those with NCCL set *|
|* NCCL_LAUNCH_ORDER_IMPLICIT. MPRT_ variables of the environment count.      *|
|*                                                                            *|
|* Collective calls. Those marked (all ranks) are made by every rank of the   *|
|* world, in the same order. If a rank leaves one out, the others fail with   *|
|* MPRT_TIMEOUT or MPRT_PEER_FAILED. A mistake that one rank finds in its own *|
|* arguments is an error of that rank alone.                                  *|
|*                                                                            *|
|* Strings are UTF-8 and end with a zero byte. Strings and arrays that a call *|
|* is given are copied or read before it returns. What a session returns      *|
|* pointers to belongs to the session; each call says for how long.           *|
|*                                                                            *|
|* Structures that begin with `struct_size` may grow at their end. Set it to  *|
|* the size of the structure, and other fields to zero for defaults.          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MPCOMM_RUNTIME_SESSION_H
#define MPCOMM_RUNTIME_SESSION_H

#include "mpcomm/Runtime/mprt.h" /* mprt_status, mprt_dtype */

#include <stdint.h>

#define MPCOMM_SESSION_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Equal to the SOVERSION of the library: incremented when a function or a
 * structure changes in a way that breaks older callers. */
#define MPCOMM_SESSION_ABI 1u

/* The number that the library was built with, and the project's version
 * ("0.1.0"). */
MPCOMM_SESSION_API uint32_t mpcomm_session_abi(void);
MPCOMM_SESSION_API const char *mpcomm_session_version(void);

typedef struct mpcomm_session mpcomm_session;

/*===-- Errors ------------------------------------------------------------===*/

/* Why a call failed. The caller owns it; there is nothing to free. */
typedef struct {
  int32_t code;       /* mprt_status                                         */
  int32_t rank;       /* the rank at which it happened; -1: of no rank       */
  char location[256]; /* place in the source of the model ("model.py:17:4"),
                       * if the failure is of one; else empty                */
  char message[1760]; /* one line: what was expected, and what was found     */
  uint8_t is_elsewhere; /* another rank has an error in the same call, without
                       * this mark: of a job that prints one message, that is
                       * the one                                             */
  uint8_t reserved[7];
} mpcomm_error;

/* "MPRT_TIMEOUT" for 4; never null. */
MPCOMM_SESSION_API const char *mpcomm_status_name(int32_t code);

/*===-- Worlds ------------------------------------------------------------===*/

/* Ranks that are threads of this process or its children, and that communicate
 * over shared memory. Create it before the threads are started or the children
 * are forked; each of them then opens a session with it (`ranks` of the
 * options). Destroy it after its sessions are closed. */
typedef struct mpcomm_ranks mpcomm_ranks;

/* Prepares `size` ranks (1 to 1024). */
MPCOMM_SESSION_API mprt_status mpcomm_ranks_create(uint32_t size,
                                                   mpcomm_ranks **ranks,
                                                   mpcomm_error *error);
/* For the process that forked the ranks: `rank` has died or will never start.
 * Ranks that wait for it fail, with `reason` in their message. */
MPCOMM_SESSION_API mprt_status mpcomm_ranks_mark_dead(mpcomm_ranks *ranks,
                                                      uint32_t rank,
                                                      const char *reason,
                                                      mpcomm_error *error);
/* Null is allowed. */
MPCOMM_SESSION_API void mpcomm_ranks_destroy(mpcomm_ranks *ranks);
/* The same as mpcomm_ranks_create for children that communicate over `comm`:
 * "shm", or "gloo", which is TCP on this machine and has no limit of 1024. A
 * child that does not come is an error after `timeout_seconds`. */
MPCOMM_SESSION_API mprt_status mpcomm_ranks_create_over(
    const char *comm, uint32_t size, double timeout_seconds,
    mpcomm_ranks **ranks, mpcomm_error *error);
/* For the process that forks the ranks, once it has forked all of them: closes
 * what only they need. */
MPCOMM_SESSION_API mprt_status mpcomm_ranks_started(mpcomm_ranks *ranks,
                                                    mpcomm_error *error);

/* What has started this process as one of several. */
typedef struct {
  uint32_t struct_size;
  uint32_t rank, size;
  const char *name; /* "torchrun", "mpirun", "srun" or "PMI"; a literal */
} mpcomm_launcher;

/* By its environment; MPRT_NOT_FOUND if that is nobody's. */
MPCOMM_SESSION_API mprt_status mpcomm_launched_by(mpcomm_launcher *launcher,
                                                  mpcomm_error *error);

/* Which world to join. There are four ways:
 *
 *   ranks            as the rank `rank` of those; over shared memory
 *   size, address    as the rank `rank` of `size` that meet at `address`
 *                    ("host:port", on which rank 0 listens); over TCP. A world
 *                    of one needs no address
 *   comm = "self"    a world of one, whatever the environment says
 *   none of these    by the environment of torchrun, mpirun, srun or another
 *                    PMI launcher; without one, a world of one
 */
typedef struct {
  uint32_t struct_size;
  uint32_t rank, size;
  const char *address;
  mpcomm_ranks *ranks; /* outlives the session */
  /* What carries messages: "self", "shm" (with `ranks`), "gloo", "mpi", or
   * "nccl" (ranks meet by another, and NCCL moves what GPUs send). Null or
   * "auto": by the way of joining. MPI can be joined once in a process, and has
   * no way back from MPI_Init: if ranks do not come, it ends the process. */
  const char *comm;
  /* "host" or "cuda"; null or "auto": that of the first program. */
  const char *device;
  /* A wait in which nothing moves for so long fails; 0: 120 seconds. */
  double timeout_seconds;
  /* Of the random bits that programs take, until a checkpoint is resumed or
   * another is set. */
  uint64_t seed;
  uint32_t reserved; /* 0 */
  /* Collectives of the record that errors are explained by; 0: 64. */
  uint32_t flight_capacity;
  /* Called where MPI would have to return and cannot, on another thread than
   * the caller's; then the process ends with status 1. Null: the message goes
   * to standard error. */
  void (*give_up)(void *user, const mpcomm_error *error);
  void *give_up_user;
} mpcomm_session_options;

/* Joins a world (all ranks). `options` may be null. On success *session is the
 * session, otherwise null. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_open(const mpcomm_session_options *options,
                    mpcomm_session **session, mpcomm_error *error);

/* Waits for a checkpoint that is being written, leaves the world and frees the
 * session, in any case. The result is the error of the checkpoint, if nothing
 * else has returned it. Null is allowed. Ranks that are in the middle of a
 * collective call fail. */
MPCOMM_SESSION_API mprt_status mpcomm_session_close(mpcomm_session *session,
                                                    mpcomm_error *error);

typedef struct {
  uint32_t struct_size;
  uint32_t rank, size;  /* of the world                                      */
  uint32_t local_ranks; /* ranks on this machine, as far as is known         */
  uint32_t data_rank, data_ranks; /* ranks that share their samples (stages of
                         * a pipeline) are one data rank; 0 and 1 without a
                         * program                                           */
  uint32_t programs;    /* how many are loaded                               */
  uint32_t current;     /* the one that steps; 0 without any                 */
  uint64_t step;        /* steps done                                        */
  uint64_t seed;
  const char *backend;  /* "self", "shm", "mpi", "gloo" or "nccl"            */
  const char *device;   /* "host" or "cuda"; "" without a program            */
} mpcomm_session_info;

/* Fills `info`, whose struct_size the caller has set. The strings live as long
 * as the session. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_describe(mpcomm_session *session, mpcomm_session_info *info,
                        mpcomm_error *error);

/*===-- Programs ----------------------------------------------------------===*/

/* A program file that is open, for sessions of this process and of its
 * children. Not for several threads at the same time. */
typedef struct mpcomm_program mpcomm_program;

/* Opens a program file that mpcomm-compile has written. Checks that it is
 * whole, and that its ABI and its processor features fit. What is used is a
 * copy in memory, whatever becomes of the file. */
MPCOMM_SESSION_API mprt_status mpcomm_program_open(const char *path,
                                                   mpcomm_program **program,
                                                   mpcomm_error *error);
/* Null is allowed. Sessions that have loaded it keep what they need. */
MPCOMM_SESSION_API void mpcomm_program_close(mpcomm_program *program);

typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t checksum;    /* of the file                                       */
  const char *path;
  const char *manifest; /* JSON text (docs/Design/Manifest.md)               */
} mpcomm_program_info;

/* The strings live as long as the program. */
MPCOMM_SESSION_API mprt_status
mpcomm_program_describe(const mpcomm_program *program,
                        mpcomm_program_info *info, mpcomm_error *error);
/* The functions that sessions which load it from here on will call; others take
 * no memory and cannot be called. Without this, all of them. MPRT_NOT_FOUND if
 * the program has none of a name. */
MPCOMM_SESSION_API mprt_status
mpcomm_program_select(mpcomm_program *program, const char *const *functions,
                      uint32_t count, mpcomm_error *error);
/* Checks that a file has the state that its functions take, on every rank:
 * names, types and shapes, as mpcomm_session_resume does, or for
 * `weights_only` mpcomm_session_read_state. A null path is no file:
 * MPRT_NOT_READY if there is state that has no value without one. */
MPCOMM_SESSION_API mprt_status mpcomm_program_check_state(
    const mpcomm_program *program, const char *path, int32_t weights_only,
    mpcomm_error *error);

/* Loads a program file that mpcomm-compile has written (all ranks). Checks that
 * it is whole, that its ABI and its processor features fit, that it was
 * compiled for as many ranks, and that all ranks load the same one. *program
 * (may be null) is its number, from 0. The first program is the current one.
 * State of a further program that has the name of state that is there is that
 * state, on ranks that had not held it, too; another type, shape or role under
 * the same name is an error. Copies in a narrower type are made anew. Variants
 * in the file are programs, too, with the numbers that follow. A load
 * that fails leaves the session as it was, unless communication failed. On a
 * GPU there can be one program yet (MPRT_UNSUPPORTED). Over shared memory, all
 * programs of a world have at most 255 communicators. */
MPCOMM_SESSION_API mprt_status mpcomm_session_load(mpcomm_session *session,
                                                   const char *path,
                                                   uint32_t *program,
                                                   mpcomm_error *error);

typedef struct {
  uint32_t struct_size;
  uint32_t trace_capacity; /* events that mpcomm_session_trace has; 0: none  */
} mpcomm_load_options;

/* The same of a program that is open (all ranks). `options` may be null. */
MPCOMM_SESSION_API mprt_status mpcomm_session_load_program(
    mpcomm_session *session, const mpcomm_program *program,
    const mpcomm_load_options *options, uint32_t *number, mpcomm_error *error);

/* Continues with another loaded program (all ranks, after the same step). State
 * stays where it is. */
MPCOMM_SESSION_API mprt_status mpcomm_session_switch(mpcomm_session *session,
                                                     uint32_t program,
                                                     mpcomm_error *error);

/* The manifest of a program, JSON text (docs/Design/Manifest.md). It lives as
 * long as the session. */
MPCOMM_SESSION_API mprt_status mpcomm_session_manifest(mpcomm_session *session,
                                                       uint32_t program,
                                                       const char **json,
                                                       mpcomm_error *error);

/* The name of a program that is a variant of the one before it in its file; ""
 * for others. It lives as long as the session. */
MPCOMM_SESSION_API mprt_status mpcomm_session_variant(mpcomm_session *session,
                                                      uint32_t program,
                                                      const char **name,
                                                      mpcomm_error *error);

/*===-- Tensors -----------------------------------------------------------===*/

typedef enum MPRT_ENUM_TYPE {
  MPCOMM_PARAMETER = 0,
  MPCOMM_OPTIMIZER_STATE = 1,
  MPCOMM_BUFFER = 2,
  MPCOMM_BATCH = 3,          /* input of a step: samples                     */
  MPCOMM_HYPERPARAMETER = 4, /* input of a step: a number, see _set          */
  MPCOMM_LOSS_SCALE = 5,
  MPCOMM_RNG = 6,            /* input of a step: random bits, from the seed  */
  MPCOMM_LOSS = 7,           /* result: the loss, and metrics                */
  MPCOMM_OUTPUT = 8          /* result                                       */
} mpcomm_role;

/* A tensor of a session. State is what has role parameter, optimizer state,
 * buffer or loss scale: it lives from step to step, and a checkpoint holds it.
 * `name` and the shapes live until the next load or close. */
typedef struct {
  uint32_t struct_size;
  int32_t role;                /* mpcomm_role                                */
  const char *name;
  int32_t dtype;               /* mprt_dtype                                 */
  uint32_t ndim;
  const int64_t *shape;        /* of what this rank has; row-major. Of a part:
                                * so many elements of the whole, one after
                                * another and padded                         */
  const int64_t *global_shape; /* of the whole                               */
  uint64_t bytes;              /* of what this rank has                      */
  int32_t owner;               /* the lowest rank that has it                */
  uint8_t is_local;            /* this rank has it                           */
  uint8_t is_replicated;       /* every rank has the whole of it; else those
                                * of some stages have, or each a part        */
  uint8_t is_updated;          /* a step of this rank changes it             */
  uint8_t needs_value;         /* it has no default, and nothing has given it
                                * a value: a step would fail                 */
  /* Where its values are on the host; null if it is not local. On the host
   * device they are the program's own: to read and write there is to read and
   * write the state. On a GPU they are a copy as of this call. Valid until the
   * next step, evaluate, load, switch, read_state, resume or close. */
  void *data;
  int64_t range_begin, range_end; /* values of an integer batch tensor lie in
                                * [begin, end); equal: no limits             */
  uint32_t global_ndim;        /* of global_shape: another than ndim where ranks
                                * have parts                                 */
  uint32_t reserved;
} mpcomm_tensor;

/* How many tensors of state there are, on any rank. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_state_count(mpcomm_session *session, uint32_t *count,
                           mpcomm_error *error);
/* The tensor of state `index`. On a GPU its `data` is null, so that to go
 * through the list costs nothing. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_state_at(mpcomm_session *session, uint32_t index,
                        mpcomm_tensor *tensor, mpcomm_error *error);
/* The tensor `name`: state, or a result of the last step or evaluate.
 * MPRT_NOT_FOUND if there is none. */
MPCOMM_SESSION_API mprt_status mpcomm_session_tensor(mpcomm_session *session,
                                                     const char *name,
                                                     mpcomm_tensor *tensor,
                                                     mpcomm_error *error);
/* The argument `index` of a function ("train_step", "evaluate") that this rank
 * runs of the current program. MPRT_NOT_FOUND beyond the last, and if there is
 * no such function. For role batch, `data` is the session's own buffer: a batch
 * that is put together there and passed by that pointer is not copied. It is
 * valid until the next load, switch or close; on a GPU until the next step. */
MPCOMM_SESSION_API mprt_status mpcomm_session_argument(
    mpcomm_session *session, const char *function, uint32_t index,
    mpcomm_tensor *tensor, mpcomm_error *error);

/* An array in host memory, read during the call. Strides count elements; null:
 * row-major without gaps. The shape is the tensor's. Values are converted where
 * that keeps what they mean: floating point to another floating-point type
 * (rounded to nearest even), integers to another integer type if each value
 * fits. Anything else is MPRT_INVALID_ARGUMENT. */
typedef struct {
  const char *name;
  const void *data;
  int32_t dtype; /* mprt_dtype */
  uint32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
} mpcomm_array;

/* Writes a tensor of state that this rank has; of a whole one it keeps its
 * part. State that is a copy of it (in another type) follows, and may then be
 * written itself. Other ranks that have the tensor are to write the same
 * values: the next save compares. MPRT_NOT_FOUND if the tensor is not here; the
 * message says who has it. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_write(mpcomm_session *session, const mpcomm_array *array,
                     mpcomm_error *error);
/* Reads a tensor of state or a result that this rank has into `bytes` bytes at
 * `data`, as many as the tensor has. */
MPCOMM_SESSION_API mprt_status mpcomm_session_read(mpcomm_session *session,
                                                   const char *name, void *data,
                                                   uint64_t bytes,
                                                   mpcomm_error *error);
/* Reads a tensor of state that any rank has, or that is there in parts (all
 * ranks): all get the whole. */
MPCOMM_SESSION_API mprt_status mpcomm_session_read_global(
    mpcomm_session *session, const char *name, void *data, uint64_t bytes,
    mpcomm_error *error);

/*===-- Stepping ----------------------------------------------------------===*/

/* The value of a hyperparameter ("lr") from the next step on. It replaces the
 * program's default and a schedule. MPRT_NOT_FOUND if there is none of that
 * name; MPRT_INVALID_ARGUMENT if the program's type does not hold the value. */
MPCOMM_SESSION_API mprt_status mpcomm_session_set(mpcomm_session *session,
                                                  const char *name,
                                                  double value,
                                                  mpcomm_error *error);
/* The value that the next step takes. */
MPCOMM_SESSION_API mprt_status mpcomm_session_get(mpcomm_session *session,
                                                  const char *name,
                                                  double *value,
                                                  mpcomm_error *error);

typedef enum MPRT_ENUM_TYPE {
  MPCOMM_CONSTANT = 0,
  MPCOMM_COSINE = 1, /* to 0 at `total` */
  MPCOMM_LINEAR = 2  /* to 0 at `total` */
} mpcomm_decay;

/* The learning rate as a function of the step, from 0: up to `base` in `warmup`
 * steps (step k takes base * (k + 1) / warmup), then as `decay` says. */
typedef struct {
  uint32_t struct_size;
  int32_t decay; /* mpcomm_decay */
  double base;
  uint64_t warmup, total;
} mpcomm_schedule;

/* Gives "lr" a schedule, which checkpoints hold. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_set_schedule(mpcomm_session *session,
                            const mpcomm_schedule *schedule,
                            mpcomm_error *error);
/* The seed of random bits, from the next step on. All ranks set the same. */
MPCOMM_SESSION_API mprt_status mpcomm_session_set_seed(mpcomm_session *session,
                                                       uint64_t seed,
                                                       mpcomm_error *error);
/* How many steps count as done; schedule and random bits follow from it. All
 * ranks set the same. */
MPCOMM_SESSION_API mprt_status mpcomm_session_set_step(mpcomm_session *session,
                                                       uint64_t step,
                                                       mpcomm_error *error);

typedef struct {
  const char *name;
  double value;
} mpcomm_metric;

/* What a step or an evaluation gave. Arrays and strings are valid until the
 * next step, evaluate, load, switch or close. */
typedef struct {
  uint32_t struct_size;
  uint8_t has_loss;
  uint8_t has_loss_scale; /* the program scales its loss                     */
  uint8_t is_skipped;  /* parameters kept their values: gradients overflowed */
  uint8_t reserved;
  uint64_t step;       /* steps done, this one included                      */
  double loss;         /* may be NaN or infinite: what to do is the caller's */
  double loss_scale;   /* of the next step                                   */
  double milliseconds; /* from the call to its end                           */
  double exposed_milliseconds; /* waited for communication; -1: not known    */
  uint32_t metric_count;
  uint32_t nonfinite_count;
  const mpcomm_metric *metrics;
  const char *const *nonfinite; /* parameters whose gradients were not finite,
                        * if the program checks (on rank 0: of all stages)   */
} mpcomm_result;

typedef struct {
  uint32_t struct_size;
  uint32_t next_count;
  /* The batch of the next step, which is then called with a null batch. On a
   * GPU it is copied there while this step runs. A value of it that is out of
   * range is an error of that step. An evaluation in between forgets it, as do
   * a load, a switch, state that is read or resumed, another seed or step. */
  const mpcomm_array *next;
} mpcomm_step_options;

/* One training step (all ranks): the current program's `train_step` on `count`
 * arrays, one for each batch argument, in any order. On the host, an array that
 * has the type of the program, no gaps and an address that is a multiple of 64
 * is used where it is. Each rank gives the samples of its data rank. Returns
 * when the step is done. `options` and `result` may be null. */
MPCOMM_SESSION_API mprt_status mpcomm_session_step(
    mpcomm_session *session, const mpcomm_array *batch, uint32_t count,
    const mpcomm_step_options *options, mpcomm_result *result,
    mpcomm_error *error);

/* Another function of the current program (all ranks), by its name; null is
 * "evaluate". It does not count as a step. Its results are read by their names.
 * Numbers are of this rank's samples, unless the program reduces them.
 *
 * "apply_pending" makes the updates that a step has left for the next one to
 * begin with (compiled with `defer-bytes`), and nothing where there are none.
 * Evaluations, saves and switches do so first; who reads or writes state calls
 * it before. */
MPCOMM_SESSION_API mprt_status mpcomm_session_evaluate(
    mpcomm_session *session, const char *function, const mpcomm_array *batch,
    uint32_t count, mpcomm_result *result, mpcomm_error *error);

/*===-- Checkpoints -------------------------------------------------------===*/

typedef struct {
  const char *key, *value;
} mpcomm_text;

typedef struct {
  uint32_t struct_size;
  uint8_t background;      /* return once each rank has a copy of what it
                            * writes; write then                             */
  uint8_t weights_only;    /* parameters and buffers, for other programs; not
                            * in the background                              */
  uint8_t allow_nonfinite; /* save NaN and infinity, too; else an error      */
  uint8_t skip_nonfinite;  /* instead of that error, leave the file as it is,
                            * with an MPCOMM_EVENT_WARNING                   */
  /* Checkpoints of this session at one path that stay: the newest at `path`,
   * those before it at PATH.step-K. 0 and 1: the newest. */
  uint32_t keep;
  uint32_t metadata_count;
  const mpcomm_text *metadata; /* kept in the file beside the session's own,
                            * whose keys they must not have                  */
  uint8_t allow_difference; /* do not compare what ranks should have equal   */
  uint8_t reserved[7];
} mpcomm_save_options;

/* Saves the state (all ranks, after the same step) to `path`, a safetensors
 * file. All ranks write: those that hold a tensor share the large ones, and
 * what others than rank 0 write are shards beside the file, PATH.shard-X-R,
 * which it names with their checksums. All ranks must see the folder. The file
 * is replaced in one go once all shards are there; on any error the old one
 * stays, with its shards. Weights are one file. Compares what ranks should have
 * equal. At most one checkpoint is written at a time in the background; the
 * next save waits for it, and returns its error if it had one. Until it is
 * closed a session has the lock on what it saves to; another run that wants to
 * write there is refused. Keys and values of `metadata` are UTF-8; those that
 * begin with "mpcomm." are the session's. `options` may be null. */
MPCOMM_SESSION_API mprt_status mpcomm_session_save(
    mpcomm_session *session, const char *path,
    const mpcomm_save_options *options, mpcomm_error *error);

typedef struct {
  uint32_t struct_size;
  uint32_t keep;        /* as of mpcomm_save_options                         */
  uint64_t every, last; /* a save after each `every` steps, from now on to step
                         * `last`; 0: after the last alone                   */
} mpcomm_save_plan;

/* Takes the lock on `path` before the first save does (all ranks), so that who
 * could not save learns of it before it trains. Fails if another run holds it,
 * or if a file that is neither this session's nor of the run that it has
 * resumed lies where a checkpoint of the plan will be kept. */
MPCOMM_SESSION_API mprt_status mpcomm_session_plan_saves(
    mpcomm_session *session, const char *path, const mpcomm_save_plan *plan,
    mpcomm_error *error);
/* Compares what ranks should have equal (all ranks, after the same step):
 * MPRT_MISMATCH, with the first tensor that differs and who has what. The
 * session does not fail by that. */
MPCOMM_SESSION_API mprt_status mpcomm_session_compare(mpcomm_session *session,
                                                      mpcomm_error *error);
/* Waits for what this rank writes in the background, on rank 0 for the whole
 * checkpoint; returns its error, once. Other ranks learn of an error that is
 * not theirs by their next save. */
MPCOMM_SESSION_API mprt_status mpcomm_session_wait(mpcomm_session *session,
                                                   mpcomm_error *error);

/* Takes state from a file of weights or a checkpoint (all ranks). All
 * parameters must be there. Steps, seed and hyperparameters stay. */
MPCOMM_SESSION_API mprt_status
mpcomm_session_read_state(mpcomm_session *session, const char *path,
                          mpcomm_error *error);

typedef struct {
  uint32_t struct_size;
  /* Continue although the program is another one than that which wrote the
   * checkpoint. Each difference becomes an MPCOMM_EVENT_WARNING. */
  uint8_t anyway;
  uint8_t reserved[3];
} mpcomm_resume_options;

/* Continues where a checkpoint was written, on this or another mesh (all
 * ranks): takes its state, step and seed, and values of hyperparameters and the
 * schedule, unless they were set before. A damaged tensor that is found while
 * the file is read fails the session. `options` may be null. */
MPCOMM_SESSION_API mprt_status mpcomm_session_resume(
    mpcomm_session *session, const char *path,
    const mpcomm_resume_options *options, mpcomm_error *error);
/* A value of the metadata of the file that was resumed or read last.
 * MPRT_NOT_FOUND if there is none. The string is valid until the next resume,
 * read_state or close. */
MPCOMM_SESSION_API mprt_status mpcomm_session_metadata(mpcomm_session *session,
                                                       const char *key,
                                                       const char **value,
                                                       mpcomm_error *error);

/*===-- Ranks among themselves --------------------------------------------===*/

/* Every rank's `bytes` at `mine` to every rank's `all` (`bytes` times the size
 * of the world), in order of rank (all ranks, with the same `bytes`). */
MPCOMM_SESSION_API mprt_status mpcomm_session_gather(mpcomm_session *session,
                                                     const void *mine,
                                                     void *all, uint64_t bytes,
                                                     mpcomm_error *error);
/* Tells the others that this rank will not continue, and why: they fail instead
 * of waiting for it. The session fails. */
MPCOMM_SESSION_API mprt_status mpcomm_session_abort(mpcomm_session *session,
                                                    const char *message,
                                                    mpcomm_error *error);

/*===-- Adapting ----------------------------------------------------------===*/

typedef struct {
  uint32_t struct_size;
  uint32_t every;       /* steps between reviews; 0: 10                      */
  /* What a plan may change of the numbers: "exact" (also null) is nothing, but
   * for the order of sums where the plan in use has that open, too; "bf16",
   * "f16", "i8", "f8E4M3FN", "f8E5M2", "i4" and "i1" are the narrowest type of
   * gradients on the wire; "low-rank" may also send thin matrices, or some of
   * the elements. */
  const char *numerics;
  double gain;          /* the share of the step by which another plan has to
                         * be faster; 0: 0.05                                */
  uint32_t budget;      /* switches in 1000 steps, those back included; 0: 10 */
  uint8_t only_watch;   /* look, and stay with the plan                      */
  uint8_t reserved[3];  /* 0                                                 */
  /* Rank 0 gives this to /bin/sh, at the lowest priority, where no plan was
   * made for a bandwidth near the one that is measured: it has to write the
   * program file MPCOMM_PLAN for the cluster file MPCOMM_CLUSTER, which its
   * environment names. The plan is loaded by all ranks, without a stop, under
   * the name measured-K. If it fails, that is told once. Null: no plans are
   * made                                                                    */
  const char *plan_command;
} mpcomm_adapt_options;

/* Every `every` steps from here on, compares what ranks have measured, tells
 * with an MPCOMM_EVENT_NETWORK which rank or link is slow, and goes on with
 * whichever of the plans that are loaded is the fastest on the network as it is
 * (all ranks, with the same options). MPCOMM_EVENT_ADAPTED says why, before the
 * MPCOMM_EVENT_SWITCHED. Plans are programs of one training graph that differ in
 * what is communicated and how. Null options end it. On a GPU it is
 * MPRT_UNSUPPORTED yet. docs/Design/Adapting.md says what is measured.
 * A step then may load and switch as the calls do, but that results of the step
 * can still be read after a switch; and it takes no next batch. */
MPCOMM_SESSION_API mprt_status mpcomm_session_adapt(
    mpcomm_session *session, const mpcomm_adapt_options *options,
    mpcomm_error *error);
/* The last review as JSON, the same on all ranks but for the times of
 * collectives, which are those of this rank's function: docs/Runtime/Session.md
 * has its keys. MPRT_NOT_READY before the first. The string is valid until the
 * next call of the session. */
MPCOMM_SESSION_API mprt_status mpcomm_session_network(mpcomm_session *session,
                                                      const char **json,
                                                      mpcomm_error *error);

/*===-- Events ------------------------------------------------------------===*/

typedef enum MPRT_ENUM_TYPE {
  MPCOMM_EVENT_LOADED = 0,    /* text: the path                              */
  MPCOMM_EVENT_SWITCHED = 1,  /* text: the path; of a variant path:name      */
  MPCOMM_EVENT_STEP = 2,      /* value: the loss                             */
  MPCOMM_EVENT_EVALUATED = 3, /* value: the loss; text: the function         */
  MPCOMM_EVENT_SNAPSHOT = 4,  /* the state is copied; text: the path         */
  MPCOMM_EVENT_SAVED = 5,     /* text: the path; in the background, rank 0   */
  MPCOMM_EVENT_RESUMED = 6,   /* text: the path                              */
  MPCOMM_EVENT_WARNING = 7,
  MPCOMM_EVENT_FAILED = 8,    /* text: the message                           */
  MPCOMM_EVENT_ADAPTED = 9,   /* text: why another plan is used              */
  MPCOMM_EVENT_NETWORK = 10   /* text: which rank or link is slow; value: for
                               * how many ms of a step a rank is waited for  */
} mpcomm_event_kind;

typedef struct {
  int32_t kind;                /* mpcomm_event_kind                          */
  int32_t rank;                /* this one's                                 */
  uint64_t step;               /* steps done                                 */
  uint64_t time_nanoseconds;   /* of CLOCK_MONOTONIC                         */
  double milliseconds;         /* how long it took; 0 where it has no length */
  double exposed_milliseconds; /* of a step; -1: not known                   */
  double value;
  char text[464];
} mpcomm_event;

/* Called on the thread whose call caused the event. What happens in the
 * background is reported by the next call that steps, saves, waits, or takes
 * events. */
typedef void (*mpcomm_event_callback)(void *user, const mpcomm_event *event);

/* Calls `callback` for each event from now on, instead of keeping it; null ends
 * that. */
MPCOMM_SESSION_API mprt_status mpcomm_session_on_event(
    mpcomm_session *session, mpcomm_event_callback callback, void *user,
    mpcomm_error *error);
/* Takes up to `capacity` of the oldest events that are kept; the last 1024 are.
 * *taken is how many; *dropped (may be null) how many were lost since the last
 * call. */
MPCOMM_SESSION_API mprt_status mpcomm_session_events(
    mpcomm_session *session, mpcomm_event *events, uint32_t capacity,
    uint32_t *taken, uint64_t *dropped, mpcomm_error *error);

/*===-- What steps cost ---------------------------------------------------===*/

/* Of this rank, since the current program was loaded. */
typedef struct {
  uint32_t struct_size;
  uint8_t is_asynchronous; /* a device computes while the host goes on      */
  uint8_t reserved[3];
  uint64_t arena_bytes;     /* scratch memory of all programs                */
  uint64_t parameter_bytes; /* parameters and buffers                        */
  uint64_t optimizer_bytes;
  uint64_t device_bytes;   /* all that this process has taken of a device of
                            * its own memory; 0 on the host                  */
  double exposed_milliseconds; /* in all, waited for communication           */
  /* Where a device computes, what a step costs the calling thread: in
   * microseconds of processor time call by call and as a graph (but for the
   * first replay of each graph), and of how many calls, or nodes of the graph,
   * it is; 0: there was no such step. */
  double eager_microseconds, eager_calls, graph_microseconds, graph_nodes;
  const char *device_name; /* as the device describes itself                 */
  const char *graph_note;  /* why steps are no graphs; "": they are, or need
                            * not be                                         */
  /* Nodes of the graph by kind; kernels are those of libraries, too. */
  double graph_kernels, graph_copies, graph_fills;
  /* The device's launch of a graph, the first of each; and of later replays, as
   * medians of the last 64, what the calling thread spends by the clock:
   * storing and sending inputs, launching, waiting for the device, all else;
   * and from the end of the wait of the step or evaluation before to the end of
   * the launch, when the device is idle. 0: no such replay was timed. */
  double first_launch_microseconds, replay_inputs_microseconds,
      replay_launch_microseconds, replay_wait_microseconds,
      replay_rest_microseconds, replay_idle_microseconds;
  const char *device_note; /* what the device chose between a library and
                            * kernels, and why; "": there was no choice      */
} mpcomm_totals;

/* The strings are valid until the next call of the session. */
MPCOMM_SESSION_API mprt_status mpcomm_session_totals(mpcomm_session *session,
                                                     mpcomm_totals *totals,
                                                     mpcomm_error *error);

typedef enum MPRT_ENUM_TYPE {
  MPCOMM_TRACE_KERNEL = 0,
  MPCOMM_TRACE_GEMM = 1,
  MPCOMM_TRACE_COPY = 2,
  MPCOMM_TRACE_ZERO = 3,
  MPCOMM_TRACE_COLLECTIVE = 4,
  MPCOMM_TRACE_WAIT = 5 /* the compute stream's, for a collective */
} mpcomm_trace_kind;

/* One thing that a stream did. Times are nanoseconds of CLOCK_MONOTONIC;
 * strings and the collective live as long as the session. */
typedef struct {
  int32_t kind;           /* mpcomm_trace_kind                               */
  uint32_t stream;        /* 0: compute; k: communicator k - 1               */
  const char *name, *location; /* never null                                 */
  uint64_t begin, end;
  uint64_t bytes;         /* moved; of a product, its operands and its result;
                           * of a collective, its payload                    */
  uint64_t flops;         /* of a kernel or a product                        */
  const char *type;       /* of a product: of its factors ("bf16"); or null  */
  uint64_t queued;        /* of a collective: when the program called it     */
  uint64_t position;      /* of a collective and of a wait for one: which of
                           * its stream it is, from 1                        */
  const mprt_collective *collective; /* of the same; else null               */
  uint32_t waited_stream; /* of a wait                                       */
  uint32_t program;       /* the number of the one that ran it               */
} mpcomm_trace_event;

/* The last events, up to `capacity`, of all programs that were loaded with a
 * trace, in the order in which they ended. *count is how many there are,
 * *dropped (may be null) how many were overwritten. */
MPCOMM_SESSION_API mprt_status mpcomm_session_trace(
    mpcomm_session *session, mpcomm_trace_event *events, uint32_t capacity,
    uint32_t *count, uint64_t *dropped, mpcomm_error *error);

/* A collective that the program called, and how far it came. */
typedef struct {
  uint64_t number, place; /* of all of this rank, and of those on its
                           * communicator, from 1                            */
  mprt_collective collective; /* its strings live as long as the session     */
  int32_t peer;           /* of a message: the other rank; else -1           */
  uint32_t reserved;
  /* Nanoseconds of CLOCK_MONOTONIC: when it was called, when its turn had come
   * on its communicator, when it was done; 0: not yet. */
  uint64_t enqueued, started, done;
} mpcomm_flight_entry;

/* The last collectives, up to `capacity`, oldest first; *count is how many
 * there are. Any thread may call it, also while a call that steps, saves or
 * waits for ranks hangs, but not during load, switch and close. */
MPCOMM_SESSION_API mprt_status mpcomm_session_flight(
    mpcomm_session *session, mpcomm_flight_entry *entries, uint32_t capacity,
    uint32_t *count, mpcomm_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MPCOMM_RUNTIME_SESSION_H */
