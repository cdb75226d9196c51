-- The core workloads of YCSB on a table of ten fields of 100 bytes; keys are drawn by Zipf's law (D: among the newest).
-- A: half reads, half updates. B: 95 % reads. C: reads. D: reads of new rows. E: short scans. F: read, change, write.
sysbench.cmdline.options = {
   mix = { "Workload, A to F", "A" },
   table_size = { "Rows", 10000 },
}

local FIELDS = 10

function prepare()
   local con = sysbench.sql.driver():connect()
   local columns = {}
   for i = 0, FIELDS - 1 do columns[#columns + 1] = string.format("field%d VARCHAR(100) NOT NULL", i) end
   con:query("CREATE TABLE usertable (ycsb_key INT NOT NULL PRIMARY KEY, " .. table.concat(columns, ", ") .. ")")
   con:bulk_insert_init("INSERT INTO usertable VALUES")
   for id = 1, sysbench.opt.table_size do con:bulk_insert_next(row(id)) end
   con:bulk_insert_done()
end

function field() return sysbench.rand.string(string.rep("@", 100)) end

function row(id)
   local values = { id }
   for _ = 1, FIELDS do values[#values + 1] = "'" .. field() .. "'" end
   return "(" .. table.concat(values, ", ") .. ")"
end

function thread_init()
   con = sysbench.sql.driver():connect()
   newest = sysbench.opt.table_size
   -- Gray et al., "Quickly generating billion-record synthetic databases", 1994; YCSB's constant.
   local n, theta = sysbench.opt.table_size, 0.99
   local zeta = 0
   for i = 1, n do zeta = zeta + 1 / i ^ theta end
   zipf = { n = n, half = 1 + 0.5 ^ theta, zeta = zeta, alpha = 1 / (1 - theta) }
   zipf.eta = (1 - (2 / n) ^ (1 - theta)) / (1 - zipf.half / zeta)
end

function thread_done() con:disconnect() end

-- Popular keys lie next to each other in the order of ranks; multiplied, they are spread over the table.
local function key()
   local u = sysbench.rand.uniform(0, 1000000000) / 1000000001
   local rank
   if u * zipf.zeta < 1 then rank = 0
   elseif u * zipf.zeta < zipf.half then rank = 1
   else rank = math.floor(zipf.n * (zipf.eta * u - zipf.eta + 1) ^ zipf.alpha) end
   return (rank * 2654435761) % zipf.n + 1
end
local function read(id) con:query("SELECT * FROM usertable WHERE ycsb_key=" .. id) end
local function update(id)
   con:query(string.format("UPDATE usertable SET field%d='%s' WHERE ycsb_key=%d", sysbench.rand.uniform(0, FIELDS - 1), field(), id))
end
local function insert()
   -- No two threads, and no two runs, draw the same key but by bad luck: then the row is replaced.
   newest = sysbench.rand.uniform(sysbench.opt.table_size + 1, 2000000000)
   con:query("REPLACE INTO usertable VALUES " .. row(newest))
end

local share = { A = 50, B = 95, C = 100, D = 95, E = 95, F = 50 }

function event()
   local mix = sysbench.opt.mix
   local reads = sysbench.rand.uniform(1, 100) <= share[mix]
   if mix == "D" then
      if reads then read(newest) else insert() end
   elseif mix == "E" then
      if reads then
         con:query(string.format("SELECT * FROM usertable WHERE ycsb_key>=%d ORDER BY ycsb_key LIMIT %d", key(), sysbench.rand.uniform(1, 100)))
      else
         insert()
      end
   elseif reads then
      read(key())
   else
      local id = key()
      if mix == "F" then read(id) end
      update(id)
   end
end
