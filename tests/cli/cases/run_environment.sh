# Rank and world: options first, then torchrun, Open MPI, PMI, Slurm.
p='range(10) | shard() | batch(10) | print'
RANK=1 WORLD_SIZE=2 "$STOKER" run -e "$p" 2>&1 | head -1
export SLURM_PROCID=0 SLURM_NTASKS=5
"$STOKER" run -q -e "$p"
echo --
PMI_RANK=3 PMI_SIZE=5 "$STOKER" run -q -e "$p"
echo --
OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=5 PMI_RANK=3 PMI_SIZE=5 "$STOKER" run -q -e "$p"
echo --
RANK=4 WORLD_SIZE=5 "$STOKER" run -q -e "$p" --rank 1 --world 5
echo --
RANK=5 WORLD_SIZE=5 "$STOKER" run -q -e "$p"
echo "exit $?"
RANK=x WORLD_SIZE=5 "$STOKER" run -q -e "$p"
echo "exit $?"
